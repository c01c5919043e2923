"""The files of PyTorch's exporters, for people_files.py: modules of many kinds, each as an archive (.pt2), as torch.export
gives it and, some, after run_decompositions(); some through torch.onnx.export, by either exporter."""
import io

import torch
from torch import nn

F = torch.nn.functional


class Residual(nn.Module):
    def __init__(self, c, groups=1):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1, groups=groups), nn.Conv2d(c, c, 1)
        self.n, self.m = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(x + self.m(self.b(F.hardswish(self.n(self.a(x))))))


def cnn(groups=1):
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), Residual(16, groups), nn.MaxPool2d(2), Residual(16, groups), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(16, 10))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, 1), nn.ConvTranspose2d(16, 8, 2, 2)
        self.d, self.n = nn.Conv2d(16, 3, 3, padding=1), nn.GroupNorm(4, 16)

    def forward(self, x):
        a = F.silu(self.a(x))
        c = self.c(F.silu(self.n(self.b(a))))
        return self.d(torch.cat([F.interpolate(c, scale_factor=1.0, mode="nearest"), a], 1))


class Tagger(nn.Module):
    def __init__(self, cell, **how):
        super().__init__()
        self.e, self.r = nn.Embedding(100, 16), cell(16, 24, batch_first=True, **how)
        self.o = nn.Linear(48 if how.get("bidirectional") else 24, 7)

    def forward(self, ids):
        return F.log_softmax(self.o(self.r(self.e(ids))[0]), -1)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.n += 1
        return x * self.n


class By(nn.Module):
    """A function of tensors and of parameters, called so that a file of it says what was done."""

    def __init__(self, formula, /, **parameters):
        super().__init__()
        self.formula = formula
        for name, value in parameters.items():
            self.register_buffer(name, value)

    def forward(self, *args):
        return self.formula(self, *args)


def mel(m, x):
    s = torch.stft(x, 128, 64, window=m.window, return_complex=True).abs() ** 2
    return torch.log(m.bank @ s + 1e-6)


def gaussian_process(m, x):
    k = torch.exp(-0.5 * torch.cdist(m.seen, m.seen) ** 2) + 0.1 * torch.eye(20)
    low = torch.linalg.cholesky(k)
    cross = torch.exp(-0.5 * torch.cdist(x, m.seen) ** 2)
    v = torch.linalg.solve_triangular(low, cross.T, upper=False)
    return cross @ torch.cholesky_solve(m.y[:, None], low), 1.1 - (v * v).sum(0)


def kalman(m, mean, cov):
    p = m.f @ cov @ m.f.T + m.q
    s = m.h @ p @ m.h.T + m.r
    gain = torch.linalg.solve(s, m.h @ p).T
    return m.f @ mean, (torch.eye(4) - gain @ m.h) @ p, torch.linalg.inv(s), torch.linalg.det(s), torch.linalg.slogdet(s).logabsdet


def beta_density(m, a, b, x):
    return torch.distributions.Beta(a, b, validate_args=False).log_prob(x), torch.digamma(a), torch.erfinv(x * 2 - 1), torch.special.i0(a)


def spread(m, a):
    return torch.polygamma(1, a)


def counts(m, x, ids):
    u, back, n = torch.unique(ids, return_inverse=True, return_counts=True)
    return torch.histc(x, 8, -2, 2), torch.bincount(ids, minlength=10), u, back, n


def principal(m, x):
    u, s, v = torch.linalg.svd(x - x.mean(0), full_matrices=False)
    return s, (u * s @ v) + 0, torch.linalg.matrix_norm(x, 2), torch.linalg.pinv(x)


def graph_layer(m, x, edges):
    messages = (x @ m.w)[edges[0]]
    degree = torch.zeros(x.shape[0]).scatter_add(0, edges[1], torch.ones(edges.shape[1]))
    return torch.zeros_like(x).index_add(0, edges[1], messages) / degree.clamp(min=1)[:, None], \
        torch.zeros(x.shape[0], 8).scatter_reduce(0, edges[1][:, None].expand(-1, 8), messages, "amax", include_self=False)


def losses(m, x, y, t):
    return F.cross_entropy(x, t, weight=m.w, label_smoothing=0.1), F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction="batchmean"), \
        F.binary_cross_entropy_with_logits(x, torch.sigmoid(y), pos_weight=m.w), F.huber_loss(x, y), \
        F.cosine_embedding_loss(x, y, t.sign() * 2 - 1), F.multi_margin_loss(x, t)


def many(m, x):
    return torch.kron(x[:3, :3], x[:2, :2]), torch.quantile(x, 0.3), torch.tensordot(x, x, dims=([0], [0])), torch.block_diag(x[:2], x[2:]), \
        torch.vander(x[0]), torch.gradient(x, dim=0)[0], torch.nanmean(x), torch.matrix_exp(x[:4, :4] * 0.1), torch.trapz(x), x.logcumsumexp(1), \
        torch.linalg.norm(x), torch.nanmedian(x), torch.addbmm(x @ x.T, x[None], x.T[None])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n = nn.MultiheadAttention(32, 4, batch_first=True), nn.LayerNorm(32)

    def forward(self, x, mask):
        return self.n(x + self.a(x, x, x, key_padding_mask=mask, need_weights=False)[0])


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.l = nn.EmbeddingBag(50, 8, mode="sum"), nn.Sequential(nn.Linear(11, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, ids, offsets, x):
        return self.l(torch.cat([self.e(ids, offsets), x], 1))


def plain(r):
    """name, module, arguments, names of dimensions that are free."""
    batch = {0: torch.export.Dim("batch", min=1, max=64)}
    yield "mlp", nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(), nn.LayerNorm(64), nn.Linear(64, 5), nn.Softmax(-1)), (r(4, 32),), None
    yield "mlp_dynamic", nn.Sequential(nn.Linear(32, 64), nn.ELU(), nn.Linear(64, 5)), (r(4, 32),), (batch,)
    yield "mlp_bf16", nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 5)).bfloat16(), (r(4, 32).bfloat16(),), None
    yield "cnn", cnn(), (r(1, 3, 64, 64),), None
    yield "cnn_depthwise", cnn(16), (r(2, 3, 64, 64),), None
    yield "unet", UNet(), (r(1, 3, 32, 32),), None
    ids = torch.randint(0, 100, (2, 9), generator=torch.Generator().manual_seed(3))
    yield "lstm", Tagger(nn.LSTM, num_layers=2, bidirectional=True), (ids,), None
    yield "gru", Tagger(nn.GRU), (ids,), None
    yield "encoder", nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2), (r(2, 10, 32),), None
    yield "attention_mask", Attention(), (r(2, 10, 32), torch.arange(10).expand(2, 10) > 7), None
    yield "mel", By(mel, window=torch.hann_window(128), bank=r(20, 65).abs()), (r(2, 1024),), None
    yield "recommender", Recommender(), (torch.arange(9), torch.tensor([0, 2, 5]), r(3, 3)), None
    yield "graph_layer", By(graph_layer, w=r(8, 8)), (r(6, 8), torch.randint(0, 6, (2, 14), generator=torch.Generator().manual_seed(5))), None
    yield "counter", Counter(), (r(2, 3),), None


def mathematical(r):
    yield "gaussian_process", By(gaussian_process, seen=r(20, 3), y=r(20)), (r(5, 3),), None
    yield "kalman", By(kalman, f=r(4, 4), q=torch.eye(4), h=r(2, 4), r=torch.eye(2)), (r(4), torch.eye(4)), None
    yield "beta_density", By(beta_density), (r(6).abs() + 0.3, r(6).abs() + 0.3, torch.sigmoid(r(6))), None
    yield "spread", By(spread), (r(6).abs() + 0.3,), None
    yield "counts", By(counts), (r(50), torch.randint(0, 7, (30,), generator=torch.Generator().manual_seed(5))), None
    yield "principal", By(principal), (r(12, 5),), None
    yield "losses", By(losses, w=torch.rand(5) + 0.5), (r(6, 5), r(6, 5), torch.tensor([0, 1, 2, 3, 4, 1])), None
    yield "many", By(many), (r(5, 6),), None


def hugging_face(r):
    import transformers as t
    ids = torch.randint(0, 90, (1, 12), generator=torch.Generator().manual_seed(3))
    small = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)

    def wrap(model, take):
        by = By(lambda s, *a: take(s.m, *a))
        by.m = model
        return by

    yield "bert", wrap(t.BertModel(t.BertConfig(vocab_size=90, **small)), lambda m, i, k: m(input_ids=i, attention_mask=k).last_hidden_state), \
        (ids, torch.ones_like(ids)), None
    yield "gpt2", wrap(t.GPT2LMHeadModel(t.GPT2Config(vocab_size=90, n_embd=32, n_layer=2, n_head=4)), lambda m, i: m(input_ids=i, use_cache=False).logits), (ids,), None
    yield "llama", wrap(t.LlamaForCausalLM(t.LlamaConfig(vocab_size=90, num_key_value_heads=2, **small)), lambda m, i: m(input_ids=i, use_cache=False).logits), (ids,), None
    yield "vit", wrap(t.ViTModel(t.ViTConfig(image_size=32, patch_size=8, **small)), lambda m, x: m(pixel_values=x).last_hidden_state), (r(1, 3, 32, 32),), None
    yield "t5_encoder", wrap(t.T5EncoderModel(t.T5Config(vocab_size=90, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)),
                             lambda m, i: m(input_ids=i).last_hidden_state), (ids,), None
    yield "whisper_encoder", wrap(t.models.whisper.modeling_whisper.WhisperEncoder(t.WhisperConfig(
        d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, max_source_positions=50)), lambda m, x: m(x).last_hidden_state), (r(1, 80, 100),), None
    yield "wav2vec2", wrap(t.Wav2Vec2Model(t.Wav2Vec2Config(conv_dim=(16,) * 3, conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_feat_extract_layers=3,
                                                            num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, **small)), lambda m, x: m(x).last_hidden_state), (r(1, 800),), None
    yield "clip_vision", wrap(t.CLIPVisionModel(t.CLIPVisionConfig(image_size=32, patch_size=8, **small)), lambda m, x: m(pixel_values=x).pooler_output), (r(1, 3, 32, 32),), None


def static_decoder():
    """A decoder with a static cache, as transformers exports it for ExecuTorch; its keyword arguments."""
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache
    model = LlamaForCausalLM(LlamaConfig(vocab_size=90, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                         num_key_value_heads=2, max_position_embeddings=64)).eval().requires_grad_(False)
    model.generation_config = GenerationConfig(use_cache=True, cache_implementation="static", max_length=32,
                                               cache_config={"batch_size": 1, "max_cache_len": 32})
    return TorchExportableModuleWithStaticCache(model), {"input_ids": torch.tensor([[7]]), "cache_position": torch.tensor([0])}


def vision(r):
    import torchvision.models as v
    yield "resnet18", v.resnet18(), (r(1, 3, 64, 64),), None
    yield "mobilenet_v3", v.mobilenet_v3_small(), (r(1, 3, 64, 64),), None
    yield "swin", v.SwinTransformer([4, 4], 24, [1, 1], [2, 2], [4, 4]), (r(1, 3, 64, 64),), None


def flat(answer):
    return [answer] if isinstance(answer, torch.Tensor) else [t for a in answer for t in flat(a)]


DECOMPOSED = ("cnn", "lstm", "encoder", "bert", "many", "losses", "counter", "attention_mask", "kalman", "gaussian_process")
ONNX = ("mlp", "mlp_dynamic", "cnn", "unet", "lstm", "gru", "encoder", "attention_mask", "mel", "bert", "gpt2", "vit", "recommender", "graph_layer")


def archive(keep, name, module, args, free, kwargs=None, strict=False):
    """Answers are the program's own, run once both files are written: a run changes the state that is saved."""
    kwargs = kwargs or {}
    with torch.no_grad():
        program = torch.export.export(module, args, kwargs, dynamic_shapes=free if free is None or not isinstance(module, By) else (free,), strict=strict)
        forms = [("torch.export", name + ".pt2", program)]
        if name in DECOMPOSED or (kwargs and strict):
            forms.append(("torch.export, decomposed", name + ".dec.pt2", program.run_decompositions()))
        paths = {}
        for _, file, form in forms:
            paths[file] = io.BytesIO()
            torch.export.save(form, paths[file])
        answers = flat(program.module()(*args, **kwargs))
        for tool, file, _ in forms:
            keep(tool, file, lambda p: p.write_bytes(paths[file].getvalue()), [*args, *kwargs.values()], answers)


def main(keep, attempt):
    g = torch.Generator().manual_seed(0)
    r = lambda *shape: torch.randn(*shape, generator=g)
    for group in (plain, mathematical, hugging_face, vision):
        torch.manual_seed(0)
        try:
            for name, module, args, free in group(r):
                module = module.eval().requires_grad_(False)
                attempt("torch.export", name, lambda: archive(keep, name, module, args, free))
                if name not in ONNX:
                    continue
                names = [f"in{i}" for i in range(len(args))]
                for by in (True, False):
                    kind = "torch.onnx.export" + ("" if by else ", dynamo=False")
                    how = dict(dynamic_shapes=free) if by else dict(dynamic_axes={"in0": {0: "batch"}} if free else None)
                    attempt(kind, name, lambda: keep(kind, f"{name}_{'new' if by else 'old'}.onnx", lambda p: torch.onnx.export(
                        module, args, str(p), dynamo=by, input_names=names, verbose=False, **how), args, flat(module(*args))))
        except ImportError as error:
            print(f"{group.__name__}: skipped, {error}")
    def decoder(strict):
        module, kwargs = static_decoder()
        archive(keep, "decoder" + ("" if strict else "_lazy"), module, (), None, kwargs, strict)
    for strict in (True, False):
        attempt("torch.export", "decoder", lambda: decoder(strict))
