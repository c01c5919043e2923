#!/usr/bin/env python3
"""embed.py IN OUT NAME: a file as a C array NAME[] and its length NAME_size."""
import sys

data = open(sys.argv[1], "rb").read()
with open(sys.argv[2], "w") as out:
    out.write(f"extern const unsigned char {sys.argv[3]}[];\nextern const unsigned int {sys.argv[3]}_size;\n")
    out.write(f"const unsigned char {sys.argv[3]}[] = {{\n")
    for i in range(0, len(data), 16):
        out.write("".join(f"{b}," for b in data[i:i + 16]) + "\n")
    out.write(f"0}};\nconst unsigned int {sys.argv[3]}_size = {len(data)};\n")
