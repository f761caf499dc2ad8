"""Reads a safetensors file with the reference implementation and writes it again.

usage: safetensors_round_trip.py IN OUT; exits with 77 where `safetensors` is not installed.
Goes below `safetensors.numpy`, which knows no bfloat16, so that every type is covered without torch.
"""
import ctypes
import json
import struct
import sys

try:
    import safetensors
except ImportError:
    sys.exit(77)

NAMES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
         "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}


def main(source, target):
    with open(source, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    metadata = json.loads(content[8:8 + length]).get("__metadata__")
    buffers, tensors = [], {}
    for name, tensor in safetensors.deserialize(content):
        data, dtype, shape = bytes(tensor["data"]), NAMES[tensor["dtype"]], tensor["shape"]
        if hasattr(safetensors, "TensorSpec"):
            buffers.append(ctypes.create_string_buffer(data, max(len(data), 1)))
            tensors[name] = safetensors.TensorSpec(
                dtype=dtype, shape=shape, data_ptr=ctypes.addressof(buffers[-1]), data_len=len(data))
        else:  # the package's interface before it took pointers
            tensors[name] = {"dtype": dtype, "shape": shape, "data": data}
    safetensors.serialize_file(tensors, target, metadata)


main(*sys.argv[1:])
