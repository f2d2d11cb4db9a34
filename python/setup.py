# SPDX-License-Identifier: MIT
"""pip install ./python (with --no-build-isolation where nothing may be fetched): builds the library and the module by CMake."""

import importlib.util
import os
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

here = os.path.dirname(os.path.abspath(__file__))


class ByCMake(build_ext):
    def build_extension(self, extension):
        # PREBUILT_QPMESH: a build tree of this Python's that is up to date.
        tree = os.environ.get("PREBUILT_QPMESH") or self.by_cmake(os.path.abspath(os.path.join(self.build_temp, "cmake")))
        site = os.path.dirname(os.path.dirname(os.path.abspath(self.get_ext_fullpath(extension.name))))
        subprocess.run(["cmake", "--install", tree, "--component", "python", "--prefix", site], check=True, stdout=subprocess.DEVNULL)

    @staticmethod
    def by_cmake(build):
        strip = [f"-DCMAKE_{kind}_LINKER_FLAGS=-s" for kind in ("EXE", "MODULE", "SHARED")]
        pybind11 = importlib.util.find_spec("pybind11")  # pip's, before the system's
        if pybind11 is not None:
            strip.append("-Dpybind11_DIR=" + os.path.join(os.path.dirname(pybind11.origin), "share", "cmake", "pybind11"))
        subprocess.run(["cmake", "-S", os.path.join(here, os.pardir), "-B", build, "-DCMAKE_BUILD_TYPE=Release",
                        "-DQPMESH_TESTS=OFF", "-DQPMESH_BENCH=OFF", "-DQPMESH_MPI=OFF", "-DQPMESH_INSTALL=OFF",
                        f"-DPython3_EXECUTABLE={sys.executable}", *strip], check=True)
        subprocess.run(["cmake", "--build", build, "--parallel", "--target", "qpmesh_package"], check=True)
        return build


def text_of(*path):
    with open(os.path.join(here, *path), encoding="utf-8") as file:
        return file.read()


version = next(line.split('"')[1] for line in text_of(os.pardir, "include", "qpmesh", "version.h").splitlines() if 'QPMESH_VERSION "' in line)
home = "https://qpmesh.example"
setup(
    name="qpmesh", version=version, description="MPI-style collectives over shared memory, RDMA and TCP",
    long_description=text_of("README.md"), long_description_content_type="text/markdown",
    author="The qpmesh authors", author_email="maintainers@qpmesh.example", license="MIT", license_files=["LICENSE"],
    url=home, project_urls={"Documentation": f"{home}/docs", "Changelog": f"{home}/docs/changelog"},
    keywords="MPI collectives allreduce RDMA RoCE InfiniBand distributed numpy torch",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: C++",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 15)),
        "Topic :: Scientific/Engineering",
        "Topic :: System :: Distributed Computing",
        "Typing :: Typed",
    ],
    packages=["qpmesh", "qpmesh_torch"], package_data={"qpmesh": ["py.typed", "*.pyi"]},
    ext_modules=[Extension("qpmesh._library", [])], cmdclass={"build_ext": ByCMake},
    entry_points={"console_scripts": [f"{tool} = qpmesh.run:tool" for tool in ("qpmesh-run", "qpmesh-info", "qpmesh-doctor")]},
    python_requires=">=3.10", install_requires=["numpy"], extras_require={"torch": ["torch>=2.6", "ninja"]})
