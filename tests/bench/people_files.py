#!/usr/bin/env python3
"""Writes files as people's tools write them, each with inputs and that tool's own answers beside it, for people.py.

    people_files.py DIR [--only TOOL]

NAME.onnx (and NAME.onnx.data, where the tool puts weights apart) or NAME.pt2, and NAME.npz: in0, in1, ... by the file's inputs,
out0, ... by its outputs, tool: what wrote it. Needs, besides NumPy and ONNX Runtime, the tools themselves (torch, torchvision,
transformers, skl2onnx, onnxmltools, xgboost, lightgbm, catboost, onnxscript, onnxruntime_genai, keras); one that is not installed is skipped,
and said so.
"""
import argparse
import importlib
import os
import pathlib
import subprocess
import shutil
import sys
import tempfile
import traceback
import warnings

warnings.filterwarnings("ignore")
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime as ort  # noqa: E402


class Keeper:
    def __init__(self, folder, only):
        self.folder, self.only, self.failed = folder, only, []

    def plain(self, value):
        """As NumPy has it; BF16, which it has not, as FP32."""
        if hasattr(value, "detach"):
            value = value.detach()
            value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
        return np.asarray(value)

    def keep(self, tool, name, write, inputs, answers):
        write(self.folder / name)
        named = {f"in{i}": self.plain(x) for i, x in enumerate(inputs)}
        named.update({f"out{i}": self.plain(y) for i, y in enumerate(answers)})
        np.savez(self.folder / (name + ".npz"), tool=tool, **named)
        print(f"{tool:32} {name}", flush=True)

    def attempt(self, tool, name, make):
        """What a tool itself cannot write is said, and is no file."""
        try:
            make()
        except ImportError as error:
            print(f"{tool}: {name}: skipped, {error}", flush=True)
        except Exception as error: # noqa: BLE001
            self.failed.append((tool, name))
            print(f"{tool}: {name}: the tool fails: {type(error).__name__}: {str(error).strip().splitlines()[0][:160] if str(error).strip() else ''}", flush=True)
            if "-v" in sys.argv:
                traceback.print_exc()

    def onnx(self, tool, name, model, inputs, answers=None):
        """Of a model whose tool has no answers of its own ONNX Runtime's are taken."""
        path = self.folder / (name + ".onnx")
        if model is not None:
            onnx.save(model, path)
        if answers is None:
            options = ort.SessionOptions()
            options.log_severity_level = 4
            session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            answers = session.run(None, dict(zip([p.name for p in session.get_inputs()], inputs)))
        self.keep(tool, path.name, lambda p: None, inputs, answers)


# ---- scikit-learn, XGBoost, LightGBM ----

def estimators():
    from sklearn import (calibration, cluster, decomposition, discriminant_analysis, ensemble, feature_selection, gaussian_process, impute,
                         linear_model, mixture, multiclass, naive_bayes, neighbors, neural_network, preprocessing, svm, tree)
    from sklearn.pipeline import make_pipeline as chain
    classes = {
        "logreg": linear_model.LogisticRegression(max_iter=500), "linsvc": svm.LinearSVC(), "svc": svm.SVC(probability=True),
        "svc_poly": svm.SVC(kernel="poly", degree=2), "svc_linear": svm.SVC(kernel="linear", probability=True), "nusvc": svm.NuSVC(nu=0.3),
        "tree": tree.DecisionTreeClassifier(max_depth=5), "forest": ensemble.RandomForestClassifier(20, max_depth=6),
        "extra": ensemble.ExtraTreesClassifier(20, max_depth=6), "gb": ensemble.GradientBoostingClassifier(n_estimators=20),
        "hgb": ensemble.HistGradientBoostingClassifier(max_iter=20), "ada": ensemble.AdaBoostClassifier(n_estimators=10),
        "bagging": ensemble.BaggingClassifier(n_estimators=5), "voting": ensemble.VotingClassifier(
            [("a", linear_model.LogisticRegression()), ("b", naive_bayes.GaussianNB())], voting="soft", flatten_transform=False),
        "stacking": ensemble.StackingClassifier([("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))]),
        "knn": neighbors.KNeighborsClassifier(), "gnb": naive_bayes.GaussianNB(), "bnb": naive_bayes.BernoulliNB(), "mlp": neural_network.MLPClassifier((16,), max_iter=300),
        "sgd": linear_model.SGDClassifier(), "perceptron": linear_model.Perceptron(), "lda": discriminant_analysis.LinearDiscriminantAnalysis(),
        "qda": discriminant_analysis.QuadraticDiscriminantAnalysis(), "calib": calibration.CalibratedClassifierCV(svm.LinearSVC(), cv=2),
        "ovr": multiclass.OneVsRestClassifier(linear_model.LogisticRegression()), "ovo": multiclass.OneVsOneClassifier(svm.LinearSVC()),
                "pipe": chain(impute.SimpleImputer(), preprocessing.StandardScaler(), decomposition.PCA(4), linear_model.LogisticRegression()),
        "poly": chain(preprocessing.MinMaxScaler(), preprocessing.PolynomialFeatures(2), linear_model.SGDClassifier()),
        "bins": chain(preprocessing.KBinsDiscretizer(4, encode="ordinal"), tree.DecisionTreeClassifier(max_depth=4)),
        "select": chain(feature_selection.SelectKBest(k=4), preprocessing.RobustScaler(), preprocessing.Normalizer(), linear_model.LogisticRegression()),
    }
    numbers = {
        "linreg": linear_model.LinearRegression(), "ridge": linear_model.Ridge(), "huber": linear_model.HuberRegressor(), "svr": svm.SVR(),
        "forestr": ensemble.RandomForestRegressor(20, max_depth=6), "gbr": ensemble.GradientBoostingRegressor(n_estimators=20),
        "knnr": neighbors.KNeighborsRegressor(), "hgbr": ensemble.HistGradientBoostingRegressor(max_iter=20), "mlpr": neural_network.MLPRegressor(hidden_layer_sizes=(16,), max_iter=300),
        "gpr": gaussian_process.GaussianProcessRegressor(alpha=0.1), "poisson": linear_model.PoissonRegressor(), "quantile": linear_model.QuantileRegressor(solver="highs"),
    }
    shapes = {
        "kmeans": cluster.KMeans(3, n_init=2), "iforest": ensemble.IsolationForest(n_estimators=20, random_state=0), "gmm": mixture.GaussianMixture(3, random_state=0),
        "lof": neighbors.LocalOutlierFactor(novelty=True), "oneclass": svm.OneClassSVM(), "pca": decomposition.PCA(3), "svd": decomposition.TruncatedSVD(3),
        "power": preprocessing.PowerTransformer(), "quantiles": preprocessing.QuantileTransformer(n_quantiles=20),
        "knn_imputer": impute.KNNImputer(n_neighbors=2), "onehot": preprocessing.OneHotEncoder(handle_unknown="ignore"), "maxabs": preprocessing.MaxAbsScaler(),
    }
    return classes, numbers, shapes


def answers_of(model, x):
    if hasattr(model, "predict"):
        y = model.predict(x)
        if hasattr(model, "predict_proba"):
            return [y, model.predict_proba(x)]
        return [y]
    return [model.transform(x)]


def sklearn_files(k):
    from sklearn.datasets import make_classification, make_regression
    from skl2onnx import to_onnx
    x, y = make_classification(400, 8, n_informative=6, n_redundant=0, n_classes=3, random_state=0)
    xr, yr = make_regression(400, 8, random_state=0)
    x, xr = x.astype(np.float32), xr.astype(np.float32)
    sets = {"": 21, "ai.onnx.ml": 3}
    for group, (data, target) in zip(estimators(), ((x, y), (xr, abs(yr) / 100), (x, None))):
        for name, model in group.items():
            def make(labels, name=name, model=model):
                given = np.abs(np.round(data)) if name == "onehot" else data
                model.fit(given, labels)
                how = {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") and target is y else None
                # ONNX Runtime judges: what a converter changes of a model is not ours.
                k.onnx("skl2onnx", "sk_" + name, to_onnx(model, given[:1], options=how, target_opset=sets), [given[:16]])
            k.attempt("skl2onnx", name, lambda: make(target))
    words = np.array(["cat", "dog", "eel"])
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC
    for name, model in (("labels", LogisticRegression(max_iter=500)), ("labels_forest", RandomForestClassifier(10)), ("labels_svc", SVC(probability=True))):
        k.attempt("skl2onnx, labels as texts", name, lambda: k.onnx("skl2onnx, labels as texts", "sk_" + name, to_onnx(
            model.fit(x, words[y]), x[:1], options={id(model): {"zipmap": name != "labels"}}, target_opset=sets), [x[:16]]))
    for name, model in (("bin_logreg", LogisticRegression()), ("bin_svc", SVC(probability=True)), ("bin_svc_plain", SVC())):
        k.attempt("skl2onnx", name, lambda: k.onnx("skl2onnx", "sk_" + name, to_onnx(
            model.fit(x, (y > 0).astype(int)), x[:1], options={id(model): {"zipmap": False}}, target_opset=sets), [x[:16]]))
    k.attempt("skl2onnx, texts", "table", lambda: text_files(k, x, y))


def text_files(k, x, y):
    import pandas as pd
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline, make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
    c = np.array(["x", "y", "z"])[y]
    for name, encoder in (("table", OneHotEncoder(handle_unknown="ignore")), ("ordinal", OrdinalEncoder())):
        model = Pipeline([("p", ColumnTransformer([("n", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), ["a", "b"]),
                                                   ("c", encoder, ["c"])])), ("m", RandomForestClassifier(10))])
        model.fit(pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": c}), y)
        kinds = [("a", FloatTensorType([None, 1])), ("b", FloatTensorType([None, 1])), ("c", StringTensorType([None, 1]))]
        k.onnx("skl2onnx, texts", "sk_" + name, to_onnx(model, initial_types=kinds, options={"zipmap": False}), [x[:9, :1], x[:9, 1:2], c[:9, None]])
    # ONNX Runtime has no locale for StringNormalizer on many machines; scikit-learn's own answers judge.
    lines = np.array(["a good one", "bad", "Very Good!", "", "very bad film, very"])
    for name, cutter in (("words", TfidfVectorizer()), ("pairs", CountVectorizer(ngram_range=(1, 2))), ("letters", TfidfVectorizer(analyzer="char", ngram_range=(1, 3))),
                         ("cased", TfidfVectorizer(lowercase=False, token_pattern="[a-zA-Z]+"))):
        model = make_pipeline(cutter, LogisticRegression()).fit(["good film", "bad film", "very good", "very bad"] * 5, [1, 0, 1, 0] * 5)
        k.onnx("skl2onnx, texts", "sk_" + name, to_onnx(model, initial_types=[("s", StringTensorType([None]))], options={"zipmap": False}),
               [lines], [model.predict(lines), model.predict_proba(lines)])


def boosting_files(k):
    import lightgbm
    import xgboost
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType
    from sklearn.datasets import make_classification, make_regression
    x, y = make_classification(400, 8, n_informative=5, n_classes=3, random_state=0)
    xr, yr = make_regression(400, 8, random_state=0)
    missing = x.copy()
    missing[::5, 2] = np.nan
    kinds = [("X", FloatTensorType([None, 8]))]
    light = {"verbose": -1, "n_estimators": 20}
    for name, model, data, target, convert in (
            ("xgb_classes", xgboost.XGBClassifier(n_estimators=20, max_depth=5), x, y, convert_xgboost),
            ("xgb_numbers", xgboost.XGBRegressor(n_estimators=20), xr, yr, convert_xgboost),
            ("xgb_two", xgboost.XGBClassifier(n_estimators=20), missing, y > 0, convert_xgboost),
            ("xgb_rank", xgboost.XGBRegressor(n_estimators=20, objective="count:poisson"), xr, abs(yr), convert_xgboost),
            ("lgbm_classes", lightgbm.LGBMClassifier(**light), x, y, convert_lightgbm), ("lgbm_numbers", lightgbm.LGBMRegressor(**light), xr, yr, convert_lightgbm),
            ("lgbm_two", lightgbm.LGBMClassifier(**light), missing, y > 0, convert_lightgbm)):
        data = data.astype(np.float32)
        def make():
            model.fit(data, target.astype(int) if target.dtype == bool else target)
            how = {"zipmap": False} if convert is convert_lightgbm and name != "lgbm_numbers" else {}
            k.onnx("onnxmltools", name, convert(model, initial_types=kinds, **how), [data[:16]])
        k.attempt("onnxmltools", name, make)


def catboost_files(k):
    import catboost
    from sklearn.datasets import make_classification, make_regression
    x, y = make_classification(400, 8, n_informative=5, n_classes=3, random_state=0)
    xr, yr = make_regression(400, 8, random_state=0)
    how = {"iterations": 20, "verbose": False, "thread_count": 1, "allow_writing_files": False}
    for name, model, data, target in (("classes", catboost.CatBoostClassifier(**how), x, y), ("two", catboost.CatBoostClassifier(**how), x, (y > 0).astype(int)),
                                      ("numbers", catboost.CatBoostRegressor(**how), xr, yr)):
        def make():
            model.fit(data.astype(np.float32), target).save_model(str(k.folder / f"catboost_{name}.onnx"), format="onnx")
            k.onnx("CatBoost", "catboost_" + name, None, [data[:16].astype(np.float32)])
        k.attempt("CatBoost", name, make)


# ---- ONNX Runtime's optimizers and quantizers ----

def bert(path):
    import torch
    from transformers import BertConfig, BertModel
    torch.manual_seed(0)
    model = BertModel(BertConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, max_position_embeddings=64,
                                 attn_implementation="eager")).eval()

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.m = model

        def forward(self, ids, mask, types):
            y = self.m(input_ids=ids, attention_mask=mask, token_type_ids=types)
            return y.last_hidden_state, y.pooler_output
    ids = torch.randint(0, 500, (2, 16))
    names = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(Both(), (ids, torch.ones_like(ids), torch.zeros_like(ids)), str(path), dynamo=False, opset_version=17, input_names=names,
                      output_names=["last", "pooler"], dynamic_axes={n: {0: "batch"} for n in [*names, "last"]})


def image(path):
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.l, self.p = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Linear(8, 10), nn.AvgPool2d(2)

        def forward(self, x):
            y = torch.relu(self.a(x))
            y = self.p(torch.nn.functional.leaky_relu(self.b(y)) + y)
            return torch.softmax(self.l(torch.cat([y, torch.sigmoid(y)], 2).mean((2, 3))), -1)
    torch.manual_seed(0)
    torch.onnx.export(Net().eval(), (torch.randn(1, 3, 16, 16),), str(path), dynamo=False, opset_version=17, input_names=["x"], output_names=["y"])


class Pictures:
    """What a quantizer calibrates with."""

    def __init__(self, shape):
        self.left = iter([{"x": np.random.default_rng(i).standard_normal(shape).astype(np.float32)} for i in range(4)])

    def get_next(self):
        return next(self.left, None)


def ort_files(k):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    from onnxruntime.transformers import optimizer
    CalibrationDataReader.register(Pictures)
    at = lambda name: str(k.folder / (name + ".onnx"))
    rng = np.random.default_rng(0)
    ids, mask = rng.integers(0, 500, (2, 16)), np.ones((2, 16), np.int64)
    mask[1, 9:] = 0
    text, picture = [ids, mask, np.zeros((2, 16), np.int64)], [rng.standard_normal((1, 3, 16, 16)).astype(np.float32)]
    bert(at("ort_bert"))
    image(at("ort_cnn"))
    k.onnx("torch.onnx.export, dynamo=False", "ort_bert", None, text)
    k.onnx("torch.onnx.export, dynamo=False", "ort_cnn", None, picture)

    def optimized(name, half):
        model = optimizer.optimize_model(at("ort_bert"), model_type="bert", num_heads=4, hidden_size=64, opt_level=0)
        if half:
            model.convert_float_to_float16(keep_io_types=True)
        model.save_model_to_file(at(name))

    def level(source, name, how):
        options = ort.SessionOptions()
        options.graph_optimization_level, options.optimized_model_filepath, options.log_severity_level = how, at(name), 4
        ort.InferenceSession(at(source), options, providers=["CPUExecutionProvider"])

    def bits(name, **how):
        q = MatMulNBitsQuantizer(onnx.load(at("ort_bert")), **how)
        q.process()
        q.model.save_model_to_file(at(name))
    levels, static, q8 = ort.GraphOptimizationLevel, QuantFormat, QuantType.QInt8
    for tool, name, make, inputs in (
            ("ORT transformers optimizer", "ort_bert_opt", lambda n: optimized(n, False), text),
            ("ORT transformers optimizer", "ort_bert_fp16", lambda n: optimized(n, True), text),
            ("ORT saved, extended", "ort_bert_extended", lambda n: level("ort_bert", n, levels.ORT_ENABLE_EXTENDED), text),
            ("ORT saved, all", "ort_bert_all", lambda n: level("ort_bert", n, levels.ORT_ENABLE_ALL), text),
            ("ORT saved, extended", "ort_cnn_extended", lambda n: level("ort_cnn", n, levels.ORT_ENABLE_EXTENDED), picture),
            ("ORT saved, all", "ort_cnn_all", lambda n: level("ort_cnn", n, levels.ORT_ENABLE_ALL), picture),
            ("ORT dynamic quantizer", "ort_bert_dynamic", lambda n: quantize_dynamic(at("ort_bert"), at(n), weight_type=q8), text),
            ("ORT dynamic quantizer", "ort_bert_opt_dynamic", lambda n: quantize_dynamic(at("ort_bert_opt"), at(n), weight_type=q8), text),
            ("ORT dynamic quantizer", "ort_bert_dynamic_ort", lambda n: level("ort_bert_dynamic", n, levels.ORT_ENABLE_EXTENDED), text),
            ("ORT static quantizer, QDQ", "ort_cnn_qdq", lambda n: quantize_static(at("ort_cnn"), at(n), Pictures((1, 3, 16, 16)), quant_format=static.QDQ, per_channel=True), picture),
            ("ORT static quantizer, QDQ", "ort_cnn_qdq_ort", lambda n: level("ort_cnn_qdq", n, levels.ORT_ENABLE_EXTENDED), picture),
            ("ORT static quantizer, QDQ", "ort_cnn_qdq_16", lambda n: quantize_static(at("ort_cnn"), at(n), Pictures((1, 3, 16, 16)), activation_type=QuantType.QUInt16, weight_type=q8), picture),
            ("ORT static quantizer, QOperator", "ort_cnn_qop", lambda n: quantize_static(at("ort_cnn"), at(n), Pictures((1, 3, 16, 16)), quant_format=static.QOperator, per_channel=True), picture),
            ("ORT MatMulNBits", "ort_bert_4", lambda n: bits(n, block_size=32, is_symmetric=True, bits=4), text),
            ("ORT MatMulNBits", "ort_bert_4_zeros", lambda n: bits(n, block_size=32, is_symmetric=False, bits=4), text),
            ("ORT MatMulNBits", "ort_bert_8", lambda n: bits(n, block_size=32, is_symmetric=True, bits=8), text)):
        def write():
            make(name)
            k.onnx(tool, name, None, inputs)
        k.attempt(tool, name, write)


# ---- others ----

def function_files(k):
    importlib.import_module("people_script").main(k)


def genai_files(k):
    """A small decoder by GenAI's builder, in FP32 and in 4 bits: a first step, from an empty cache."""
    importlib.import_module("onnxruntime_genai")
    from tokenizers import Tokenizer, models
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    work = pathlib.Path(tempfile.mkdtemp())
    source = str(work / "hf")
    model = LlamaForCausalLM(LlamaConfig(vocab_size=96, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                         max_position_embeddings=64, bos_token_id=1, eos_token_id=2))
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=2)
    model.save_pretrained(source)
    words = Tokenizer(models.WordLevel({f"t{i}": i for i in range(96)}, unk_token="t0"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="t0", bos_token="t1", eos_token="t2", pad_token="t3").save_pretrained(source)
    for kind in ("fp32", "int4"):
        folder = work / kind
        done = subprocess.run([sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", source, "-o", folder, "-p", kind, "-e", "cpu", "-c", work / "cache"],
                              capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-160:])
        file = onnx.load(folder / "model.onnx") # its weights lie in a file beside it
        for tensor in file.graph.initializer:
            tensor.data_location = onnx.TensorProto.DEFAULT
        path = k.folder / f"genai_{kind}.onnx"
        onnx.save(file, path, save_as_external_data=True, location=path.name + ".data")
        session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        draw = {"input_ids": np.array([[5, 6, 7]]), "attention_mask": np.ones((1, 3), np.int64), "position_ids": np.array([[0, 1, 2]])}
        inputs = [draw[p.name] if p.name in draw else np.zeros((1, 2, 0, 16), np.float32)
                  for p in session.get_inputs()]
        k.onnx("GenAI builder", path.stem, None, inputs)
    shutil.rmtree(work)


def keras_files(k):
    """Keras's own exporter, with whichever backend it has; torch is asked for."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras
    from keras import layers as l
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    for name, shape, of in (
            ("cnn", (16, 16, 3), [l.Conv2D(8, 3, padding="same", activation="relu"), l.BatchNormalization(), l.MaxPooling2D(), l.DepthwiseConv2D(3),
                                  l.GlobalAveragePooling2D(), l.Dense(5, activation="softmax")]),
            ("lstm", (12, 8), [l.LSTM(16, return_sequences=True), l.Bidirectional(l.LSTM(8)), l.Dense(3)]),
            ("gru", (12, 8), [l.GRU(16, return_sequences=True), l.LayerNormalization(), l.Conv1D(8, 3, activation="swish"), l.GlobalMaxPooling1D(), l.Dense(3, activation="sigmoid")]),
            ("unet", (16, 16, 3), [l.Conv2D(8, 3, 2, padding="same", activation="elu"), l.Conv2DTranspose(4, 3, 2, padding="same"), l.UpSampling2D(2, interpolation="bilinear"),
                                   l.Conv2D(3, 1, activation="tanh")])):
        def make():
            x = rng.standard_normal((2, *shape)).astype(np.float32)
            model = keras.Sequential([l.Input(shape), *of])
            answers = [np.asarray(model(x).detach() if hasattr(model(x), "detach") else model(x))]
            model.export(str(k.folder / f"keras_{name}.onnx"), format="onnx", verbose=False)
            k.onnx("Keras, export to ONNX", "keras_" + name, None, [x], answers)
        k.attempt("Keras, export to ONNX", name, make)


def torch_files(k):
    importlib.import_module("people_torch").main(k.keep, k.attempt)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="torch, sklearn, boosting, catboost, ort, function, genai or keras")
    parser.add_argument("-v", action="store_true", help="where a tool fails, its traceback")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    k = Keeper(args.folder, args.only)
    for tool in (torch_files, sklearn_files, boosting_files, catboost_files, ort_files, function_files, genai_files, keras_files):
        if args.only in tool.__name__:
            k.attempt(tool.__name__, "all", lambda: tool(k))
    print(f"{len(list(args.folder.glob('*.npz')))} files; {len(k.failed)} were not written: {', '.join(f'{n} ({t})' for t, n in k.failed)}")


if __name__ == "__main__":
    main()
