#!/usr/bin/env python3
"""CONTRIBUTING's first two recipes, followed to the letter by a program: in a copy of the tree a
pointwise operator `thrice` is added (one line), and an operator `twice` with kernels of its own (one
folder, two lines), with one source for three ISA levels and a variant for AVX2. Both are built,
served, and answer over HTTP at each level that runs.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import numpy as np

import service

FOLDER = {
    "twice.c": '''/* twice: an operator that a test adds. */
#include "kernels/elementwise.h"

td_kernel td_twice_ref, td_twice_hand_avx2;
TD_KERNELS_3(twice);

static const struct td_impl impls[] = {
    TD_IF_avx2({.name = "hand", .run = td_twice_hand_avx2, .isa = TD_ISA_avx2, .dtypes = TD_f32}, )
    TD_SIMD_3(twice, TD_f32) TD_REF(twice),
    {0},
};

const struct td_op td_op_twice = {
    .schema = "twice(Tensor self) -> Tensor",
    .doc = "out = 2 self",
    .rule = td_rule_unary,
    .promote = TD_PROMOTE_none,
    .dtypes = TD_FLOATS,
    .ulp = 0,
    .impls = impls,
    .samples = (const char *const[]){"self=[n]", NULL},
};
''',
    "twice_ref.c": '''/* twice, reference. */
#include "kernels/elementwise.h"

td_kernel td_twice_ref;

void td_twice_ref(const struct td_call *call)
{
    for (int64_t i = 0, n = td_numel(&call->out[0]); i < n; i++)
        td_put_real(&call->out[0], i, 2 * td_get_real(&call->arg[0].tensor, i));
}
''',
    "twice_simd.c": '''/* twice, vector form. */
#include "kernels/vec.h"

#include "kernels/kernels.h"

TD_KERNEL(twice)
{
    const float *in = call->arg[0].tensor.data;
    float *out = call->out[0].data;
    for (int64_t left = td_numel(&call->out[0]); left > 0; left -= TD_LANES) {
        td_vf x = td_load_next(in, left, 0);
        td_store_next(out, left, x + x);
        in += TD_LANES;
        out += TD_LANES;
    }
}
''',
    "twice_hand.c": '''/* twice, by hand. */
#include "kernels/kernels.h"

TD_KERNEL(twice_hand)
{
    const float *in = call->arg[0].tensor.data;
    float *out = call->out[0].data;
    for (int64_t i = 0, n = td_numel(&call->out[0]); i < n; i++)
        out[i] = 2 * in[i];
}
''',
}
LINES = (("kernels/ops.def", "TD_OP(nms)\n", "TD_OP(twice)\n"),
         ("kernels/meson.build", "kernels = [ # folder, [[suffix, levels]...], [base suffixes]\n",
          "  ['twice', [['simd', vec], ['hand', ['avx2']]], []],\n"),
         ("kernels/pointwise/pointwise.def", "/* ---- more arithmetic ---- */\n",
          'TD_UNARY(thrice, "3 self", none, TD_FLOATS, 0, 1, 3 * a, 0, L_mul(L_c(3), a))\n'))


def copy_tree(to):
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if names.returncode:
        service.skip("not a git checkout: no list of what to copy")
    for name in names.stdout.splitlines():
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)


class Recipe(unittest.TestCase):
    def test_a_toy_operator(self): # ISA-28, ISA-22, ISA-17, DSP-22, JIT-43
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder) / "tensord"
            copy_tree(tree)
            (tree / ".deps").symlink_to(ROOT / ".deps")
            for name, text in FOLDER.items():
                path = tree / "kernels/twice" / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            for name, before, line in LINES:
                text = (tree / name).read_text()
                self.assertIn(before, text)
                (tree / name).write_text(text.replace(before, before + line))
            for command in (["meson", "setup", "--buildtype=release", "-Dwerror=true", "build"],
                            ["ninja", "-C", "build", "tensord"]):
                done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-2000:])
            service.BINARY = str(tree / "build/tensord")
            self.serve()

    def serve(self):
        x = np.linspace(-5, 5, 101, dtype=np.float32)
        levels = [level["name"] for level in service.json.loads(service.run("isa", "--json").stdout)["levels"]
                  if level["runnable"]]
        for level in levels:
            with service.Service(env={"TENSORD_CPU_CAPABILITY": level.lower()}) as s:
                reply = s.infer("twice", {"self": x})
                self.assertEqual(reply.status, 200, reply.body)
                np.testing.assert_array_equal(reply.out, 2 * x)
                kernel = "simd" if level == "DEFAULT" else "hand"
                self.assertEqual(reply.parameters["kernel"], kernel, level)
                self.assertEqual(s.call("GET", "/v2/models/op.twice").status, 200)
                self.assertIn(b"\n    op.twice: {", s.call("GET", "/openapi.yaml").body)
                reply = s.infer("thrice", {"self": x})
                np.testing.assert_array_equal(reply.out, 3 * x)
                self.assertEqual(reply.parameters["kernel"], "simd", level)
                self.assertEqual(s.infer("twice", {"self": x}, {"device": "refcpu"}).parameters["kernel"], "ref")


if __name__ == "__main__":
    service.main()
