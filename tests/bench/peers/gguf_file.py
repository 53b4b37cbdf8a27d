"""What a GGUF file of an expert model holds: how much of it a token reads and
how much there is to compute."""

import math
import struct

# Of GGUF's scalar types, by their number; 8 is a string, 9 an array.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


class GgufFile:
    """values: key -> value. tensors: name -> (dimensions, ggml type, bytes), the
    fastest dimension first."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self._file = file
            magic, version, tensors, values = struct.unpack("<4sIQQ", file.read(24))
            if magic != b"GGUF" or version != 3:
                raise SystemExit(f"{path} is no GGUF file of version 3")
            self.values = {self._string(): self._value(self._scalar(4)) for _ in range(values)}
            infos = [self._info() for _ in range(tensors)]
            alignment = self.values.get("general.alignment", 32)
            begin = -(-file.tell() // alignment) * alignment
            ends = sorted([at for *_, at in infos] + [file.seek(0, 2) - begin])
        following = dict(zip(ends, ends[1:]))
        self.tensors = {
            name: (dimensions, kind, following[at] - at) for name, dimensions, kind, at in infos
        }

    def _scalar(self, kind):
        code = "<" + _SCALARS[kind]
        return struct.unpack(code, self._file.read(struct.calcsize(code)))[0]

    def _string(self):
        return self._file.read(self._scalar(10)).decode()

    def _value(self, kind):
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            of = self._scalar(4)
            return [self._value(of) for _ in range(self._scalar(10))]
        return self._scalar(kind)

    def _info(self):
        name = self._string()
        dimensions = [self._scalar(10) for _ in range(self._scalar(4))]
        return name, dimensions, self._scalar(4), self._scalar(10)

    def _key(self, name):
        return self.values[self.values["general.architecture"] + "." + name]

    def _share(self, name, tokens):
        """The part of a tensor that a step of so many tokens reads, where each
        takes any experts as likely as others."""
        if name.startswith("token_embd"):
            return 0
        if "_exps" not in name:
            return 1
        return 1 - (1 - self._key("expert_used_count") / self._key("expert_count")) ** tokens

    def bytes_per_step(self, tokens):
        """Of weights, that a step of so many sequences reads."""
        return sum(size * self._share(name, tokens) for name, (_, _, size) in self.tensors.items())

    def flops_per_prompt_token(self):
        """Of the products of matrices, two for a multiply-add; the head, which
        sees the last token alone, is left out."""
        return sum(
            2 * math.prod(dimensions) * self._share(name, 1)
            for name, (dimensions, _, _) in self.tensors.items()
            if len(dimensions) > 1 and "conv1d" not in name and name != "output.weight"
        )
