#!/usr/bin/env python3
"""embed.py IN OUT: a script as the C text td_peers_script."""
import pathlib
import sys

lines = pathlib.Path(sys.argv[1]).read_text().splitlines()
with open(sys.argv[2], "w") as out:
    out.write('#include "server/report/peers.h"\n\nconst char td_peers_script[] =\n')
    for line in lines:
        text = line.replace("\\", "\\\\").replace('"', '\\"')
        out.write(f'    "{text}\\n"\n')
    out.write("    ;\n")
