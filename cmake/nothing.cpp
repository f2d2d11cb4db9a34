// What qpmesh_precompile() makes needs a source.
