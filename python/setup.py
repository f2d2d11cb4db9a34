"""pip install . (with --no-build-isolation where nothing may be fetched): builds the library and the module by CMake."""

import os
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

here = os.path.dirname(os.path.abspath(__file__))


class ByCMake(build_ext):
    def build_extension(self, extension):
        build = os.environ.get("PREBUILT_QPMESH")  # a build tree of this Python's that is up to date
        if build is None:
            build = self.by_cmake(os.path.abspath(os.path.join(self.build_temp, "cmake")))
        target = os.path.abspath(self.get_ext_fullpath(extension.name))
        os.makedirs(os.path.join(os.path.dirname(target), "bin"), exist_ok=True)
        shutil.copy2(os.path.join(build, "python", "qpmesh", os.path.basename(target)), target)
        shutil.copy2(os.path.join(build, "bin", "qpmesh-run"), os.path.join(os.path.dirname(target), "bin"))

    @staticmethod
    def by_cmake(build):
        subprocess.run(["cmake", "-S", os.path.join(here, os.pardir), "-B", build, "-DCMAKE_BUILD_TYPE=Release",
                        "-DQPMESH_TESTS=OFF", "-DQPMESH_BENCH=OFF", "-DQPMESH_MPI=OFF", "-DQPMESH_INSTALL=OFF",
                        f"-DPython3_EXECUTABLE={sys.executable}"], check=True)
        subprocess.run(["cmake", "--build", build, "--parallel", "--target", "qpmesh_python", "qpmesh-run"], check=True)
        return build


def version():
    with open(os.path.join(here, os.pardir, "include", "qpmesh", "version.h")) as header:
        return next(line.split('"')[1] for line in header if 'QPMESH_VERSION "' in line)


setup(name="qpmesh", version=version(), description="Collectives over shared memory, RDMA and TCP", license="MIT",
      packages=["qpmesh"], package_data={"qpmesh": ["py.typed", "*.pyi", "bin/qpmesh-run"]},
      ext_modules=[Extension("qpmesh._library", [])], cmdclass={"build_ext": ByCMake},
      python_requires=">=3.9", install_requires=["numpy"])
