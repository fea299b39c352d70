"""Reads what ecrec writes: JSON lines, safetensors, checkpoints. Written from docs/ alone; it shares no code with ecrec."""

import json
import os
import re
import struct


def toml(keys):
    """Returns a config file of {"section.key": value}."""
    sections = {}
    for key, value in keys.items():
        section, name = key.rsplit(".", 1)
        sections.setdefault(section, []).append((name, value))
    lines = []
    for section in sorted(sections):
        lines.append("[%s]" % section)
        lines += ["%s = %s" % (name, toml_value(value)) for name, value in sorted(sections[section])]
    return "\n".join(lines) + "\n"


def toml_value(value):
    if isinstance(value, dict):
        return "{" + ", ".join("%s = %s" % (k, toml_value(v)) for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(v) for v in value) + "]"
    return json.dumps(value)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def read_json(path):
    return json.loads(read(path))


def json_lines(path, broken=None):
    """Returns the objects of a file of JSON lines. A line that does not parse is appended to broken."""
    if not os.path.exists(path):
        return []
    found = []
    for line in read(path).split(b"\n"):
        if not line:
            continue
        try:
            found.append(json.loads(line))
        except ValueError:
            if broken is not None:
                broken.append(line[:80].decode("utf-8", "replace"))
    return found


def safetensors(path):
    """Returns (tensors, metadata) of a file; a tensor is (dtype, shape, bytes). Raises ValueError if the file is malformed."""
    data = read(path)
    if len(data) < 8:
        raise ValueError("%s: %d bytes" % (path, len(data)))
    length = struct.unpack("<Q", data[:8])[0]
    if 8 + length > len(data):
        raise ValueError("%s: a header of %d bytes in a file of %d" % (path, length, len(data)))
    header = json.loads(data[8:8 + length])
    body = data[8 + length:]
    metadata = header.pop("__metadata__", {})
    tensors, end = {}, 0
    for name, about in header.items():
        begin, stop = about["data_offsets"]
        size = {"F32": 4, "U64": 8, "U8": 1, "I64": 8, "I32": 4}[about["dtype"]]
        for n in about["shape"]:
            size *= n
        if begin < 0 or stop - begin != size or stop > len(body):
            raise ValueError("%s: tensor %s of shape %s lies at %d to %d of %d bytes" % (path, name, about["shape"], begin, stop, len(body)))
        tensors[name] = (about["dtype"], about["shape"], body[begin:stop])
        end = max(end, stop)
    if end != len(body):
        raise ValueError("%s: %d bytes behind the last tensor" % (path, len(body) - end))
    return tensors, metadata


def write_safetensors(path, tensors):
    """Writes {name: (shape, [floats])}."""
    header, body = {}, b""
    for name, (shape, values) in tensors.items():
        raw = struct.pack("<%df" % len(values), *values)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def floats(tensor):
    _, _, raw = tensor
    return list(struct.unpack("<%df" % (len(raw) // 4), raw))


STEP = re.compile(r"^step-(\d{12})$")


def checkpoints(folder):
    """Returns {step: path} of the checkpoints in a folder."""
    if not os.path.isdir(folder):
        return {}
    return {int(STEP.match(name).group(1)): os.path.join(folder, name) for name in os.listdir(folder) if STEP.match(name)}


def manifest(path):
    return read_json(os.path.join(path, "manifest.json"))["checkpoint"]


def check_complete(path):
    """Returns the manifest of a checkpoint whose files are all there, with the sizes that the manifest has. Raises ValueError otherwise."""
    about = manifest(path)
    names = {"manifest.json"}
    for file in about["files"]:
        names.add(file["name"])
        size = os.path.getsize(os.path.join(path, file["name"]))
        if size != file["bytes"]:
            raise ValueError("%s/%s has %d bytes, the manifest %d" % (path, file["name"], size, file["bytes"]))
        if file["name"].endswith(".safetensors"):
            tensors, _ = safetensors(os.path.join(path, file["name"]))
            if "rows" in file and "rows" in tensors and tensors["rows"][1][0] != file["rows"]:
                raise ValueError("%s/%s holds %d rows, the manifest %d" % (path, file["name"], tensors["rows"][1][0], file["rows"]))
    beside = set(os.listdir(path)) - names - {"recipe.json", "follow.json"}
    if beside:
        raise ValueError("%s holds %s, which the manifest does not name" % (path, sorted(beside)))
    if about["step"] != int(STEP.match(os.path.basename(path)).group(1)):
        raise ValueError("%s is of step %d" % (path, about["step"]))
    return about


def difference(one, other, names=None):
    """Returns the first name in which two folders differ byte for byte, or None."""
    left, right = set(os.listdir(one)), set(os.listdir(other))
    if names is not None:
        left, right = {n for n in left if names(n)}, {n for n in right if names(n)}
    if left != right:
        return "files: %s" % sorted(left ^ right)
    for name in sorted(left):
        if read(os.path.join(one, name)) != read(os.path.join(other, name)):
            return name
    return None
