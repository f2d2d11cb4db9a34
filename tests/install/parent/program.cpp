// SPDX-License-Identifier: MIT
#include <qpmesh/qpmesh.hpp>

int main() { return qpmesh::init().size() - 1; }
