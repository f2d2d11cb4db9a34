// SPDX-License-Identifier: MIT
// What qpmesh_precompile() makes needs a source.
