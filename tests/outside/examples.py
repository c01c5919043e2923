#!/usr/bin/env python3
"""The examples that bring a model, each run as a reader would, on the real program. TENSORD_MODELS names the folder
that has the models; without it there is nothing to run."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import service

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODELS = os.environ.get("TENSORD_MODELS")
if not MODELS:
    service.skip("TENSORD_MODELS does not name a folder with minilm.onnx and ppocr_rec.onnx")
import numpy as np

try:
    from PIL import Image, ImageDraw, ImageFont
except ImportError:
    Image = None


class Examples(unittest.TestCase):
    def run_example(self, name, model, *more):
        with service.Service() as s:
            ran = subprocess.run([sys.executable, str(ROOT / "examples" / name), f"http://127.0.0.1:{s.port}",
                                  os.path.join(MODELS, model), *more], capture_output=True, text=True, timeout=120)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def test_sentences(self):
        alike, *others = [float(line.split()[0]) for line in self.run_example("sentences.py", "minilm.onnx").splitlines()]
        self.assertAlmostEqual(alike, 0.93, delta=0.01)
        self.assertTrue(all(abs(one) < 0.1 for one in others), others)

    @unittest.skipIf(Image is None, "there is no Pillow to draw a line of text with")
    def test_read_line(self):
        picture = Image.new("RGB", (320, 48), "white")
        ImageDraw.Draw(picture).text((6, 4), "Tensor server 42", "black", ImageFont.load_default(34))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "line.npy")
            np.save(path, np.asarray(picture)[:, :, ::-1])
            self.assertEqual(self.run_example("read_line.py", "ppocr_rec.onnx", path).strip(), "Tensor server 42")


if __name__ == "__main__":
    service.main()
