# SPDX-License-Identifier: MIT
"""The stubs name what the module has, with its arguments, and nothing else."""

import ast
import inspect
import sys

import qpmesh

declared = {}
for node in ast.parse(open(sys.argv[1]).read()).body:
    if isinstance(node, ast.ClassDef):
        declared[node.name] = {each.name: [a.arg for a in each.args.args + each.args.kwonlyargs]
                               for each in node.body if isinstance(each, ast.FunctionDef)}
        for each in node.body:
            if isinstance(each, ast.AnnAssign):
                declared[node.name][each.target.id] = None
    elif isinstance(node, ast.FunctionDef):
        declared[node.name] = None

for name in qpmesh.__all__:
    if inspect.isclass(getattr(qpmesh, name)) or inspect.isfunction(getattr(qpmesh, name)):
        assert name in declared, f"{name} is not declared"
for name in ("Communicator", "Request", "Message", "Status", "Candidate"):
    has = {each for each in vars(getattr(qpmesh, name)) if not each.startswith("_")}
    has -= {"allocate_bytes", "allocate_bytes_here"}
    of_stub = {each for each in declared[name] if not each.startswith("_")}
    assert has == of_stub, (name, has ^ of_stub)
for name, arguments in declared["Communicator"].items():
    method = getattr(qpmesh.Communicator, name)
    if arguments is None or name.startswith("_"):
        continue
    try:
        signature = inspect.signature(method)
    except ValueError:
        continue  # pybind11's own methods tell theirs in words
    assert [each for each in signature.parameters][1:] == arguments[1:], (name, signature, arguments)
