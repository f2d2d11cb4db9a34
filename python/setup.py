"""pip install . (with --no-build-isolation where nothing may be fetched): builds the library and the module by CMake."""

import importlib.util
import os
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

here = os.path.dirname(os.path.abspath(__file__))




def torch_can_be_built_for():
    """Then qpmesh_torch is in the package, for the torch that is installed here."""
    torch = importlib.util.find_spec("torch")
    if torch is None:
        return False
    folders = [os.path.join(os.path.dirname(torch.origin), "include"), "/usr/include", "/usr/local/include"]
    return any(os.path.exists(os.path.join(folder, "torch", "csrc", "distributed", "c10d", "ProcessGroup.hpp")) for folder in folders)


has_torch = torch_can_be_built_for()


class ByCMake(build_ext):
    build_tree = None

    def build_extension(self, extension):
        if self.build_tree is None:  # PREBUILT_QPMESH: one of this Python's that is up to date
            self.build_tree = os.environ.get("PREBUILT_QPMESH") or self.by_cmake(os.path.abspath(os.path.join(self.build_temp, "cmake")))
        target = os.path.abspath(self.get_ext_fullpath(extension.name))
        package = os.path.dirname(target)
        built = os.path.join(self.build_tree, "python", os.path.basename(package))
        os.makedirs(package, exist_ok=True)
        shutil.copy2(os.path.join(built, os.path.basename(target)), target)
        if extension.name == "qpmesh_torch._library":
            shutil.copy2(os.path.join(built, "built_for.py"), package)
        else:
            os.makedirs(os.path.join(package, "bin"), exist_ok=True)
            shutil.copy2(os.path.join(self.build_tree, "bin", "qpmesh-run"), os.path.join(package, "bin"))

    @staticmethod
    def by_cmake(build):
        subprocess.run(["cmake", "-S", os.path.join(here, os.pardir), "-B", build, "-DCMAKE_BUILD_TYPE=Release",
                        "-DQPMESH_TESTS=OFF", "-DQPMESH_BENCH=OFF", "-DQPMESH_MPI=OFF", "-DQPMESH_INSTALL=OFF",
                        f"-DPython3_EXECUTABLE={sys.executable}"], check=True)
        subprocess.run(["cmake", "--build", build, "--parallel", "--target", "qpmesh_python", "qpmesh-run",
                        *(["qpmesh_torch"] if has_torch else [])], check=True)
        return build


def version():
    with open(os.path.join(here, os.pardir, "include", "qpmesh", "version.h")) as header:
        return next(line.split('"')[1] for line in header if 'QPMESH_VERSION "' in line)


packages = ["qpmesh", "qpmesh_torch"] if has_torch else ["qpmesh"]
setup(name="qpmesh", version=version(), description="Collectives over shared memory, RDMA and TCP", license="MIT",
      packages=packages, package_data={"qpmesh": ["py.typed", "*.pyi", "bin/qpmesh-run"]},
      ext_modules=[Extension(f"{package}._library", []) for package in packages], cmdclass={"build_ext": ByCMake},
      python_requires=">=3.9", install_requires=["numpy"])
