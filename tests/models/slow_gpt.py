"""A twin of gpt, and of the image transformer's blocks, in plain loops over tokens and heads: it reads the weights of a
model by their names."""

import math

import torch


def activation(name, x):
    return {
        "gelu": lambda: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
        "relu2": lambda: torch.where(x > 0, x * x, torch.zeros_like(x)),
        "silu": lambda: x / (1 + torch.exp(-x)),
        "swiglu": lambda: x / (1 + torch.exp(-x)),
        "geglu": lambda: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    }[name]()


def turned(x, t, base):
    """Features i and i + d/2 of one vector as a complex number, times e^(i t base^(-2 i / d))."""
    half = len(x) // 2
    points = torch.complex(x[:half], x[half:])
    angles = [t * base ** (-2 * i / len(x)) for i in range(half)]
    turns = torch.tensor([complex(math.cos(a), math.sin(a)) for a in angles], dtype=torch.complex128)
    return torch.cat([(points * turns).real, (points * turns).imag])


class SlowGPT:
    """Logits (T, num_classes) of one text under RMSNorm (`centered=False`) or LayerNorm."""

    def __init__(self, model, options, *, centered, eps=1e-5):
        self.weights, self.options = dict(model.named_parameters()), options
        self.centered, self.eps = centered, eps

    def get(self, name, otherwise=None):
        return self.options.get(name, otherwise)

    def norm(self, name, x):
        x = x - x.mean() if self.centered else x
        y = x / torch.sqrt((x * x).mean() + self.eps)
        y = y * self.weights.get(f"{name}.weight", 1.0)
        return y + self.weights.get(f"{name}.bias", 0.0)

    def linear(self, name, x):
        return self.weights[f"{name}.weight"] @ x + self.weights.get(f"{name}.bias", 0.0)

    def attention(self, name, xs):
        heads, width = self.options["heads"], len(xs[0])
        d = width // heads
        parts = [self.linear(f"{name}.qkv", x).split(width) for x in xs]

        def whole_or_by_head(norm, x):
            if self.get("qk_norm_over") == "width":
                return self.norm(norm, x)
            return torch.cat([self.norm(norm, head) for head in x.split(d)])

        def place(x, t):
            if self.get("position") != "rope":
                return x
            return torch.cat([turned(head, t, self.get("rope_base", 10_000.0)) for head in x.split(d)])

        def prepared(norm, x, t):
            if not self.get("qk_norm"):
                return place(x, t)
            if self.get("qk_norm_place") == "after":
                return whole_or_by_head(norm, place(x, t))
            return place(whole_or_by_head(norm, x), t)

        queries = [prepared(f"{name}.norm_query", q, t) for t, (q, _, _) in enumerate(parts)]
        keys = [prepared(f"{name}.norm_key", k, t) for t, (_, k, _) in enumerate(parts)]
        values = [v for _, _, v in parts]
        results = []
        for t in range(len(xs)):
            found = []
            for h in range(heads):
                own = slice(h * d, (h + 1) * d)
                seen = range(t + 1 if self.get("causal", True) else len(xs))
                factor = self.get("attention_scale", 1.0) / math.sqrt(d)
                scores = [factor * (queries[t][own] @ keys[s][own]) for s in seen]
                total = sum(torch.exp(score) for score in scores)
                if self.get("attention_sink"):
                    total = total + torch.exp(self.weights[f"{name}.sink"][h])
                found.append(sum(torch.exp(score) / total * values[s][own] for s, score in enumerate(scores)))
            results.append(self.linear(f"{name}.output", torch.cat(found)))
        return results

    def mlp(self, name, xs):
        kind, results = self.get("activation", "gelu"), []
        for x in xs:
            hidden = self.linear(f"{name}.expand", x)
            if kind in ("swiglu", "geglu"):
                gate, value = hidden[: len(hidden) // 2], hidden[len(hidden) // 2 :]
                hidden = activation(kind, gate) * value
            else:
                hidden = activation(kind, hidden)
            results.append(self.linear(f"{name}.output", hidden))
        return results

    def residual(self, name, branch, xs, k):
        position, factor = self.get("norm_position", "pre"), k**-0.5 if self.get("depth_scaling") else 1.0

        def f(inputs):
            return branch(f"{name}.branch", inputs)

        def n(inputs, which="norm"):
            return [self.norm(f"{name}.{which}", x) for x in inputs]

        if position == "pre":
            return [x + y for x, y in zip(xs, f([factor * x for x in n(xs)]), strict=True)]
        if position == "post":
            return n([x + y for x, y in zip(xs, f(xs), strict=True)])
        if position == "sandwich":
            return [x + y for x, y in zip(xs, n(f(n(xs)), "norm_output"), strict=True)]
        if position == "output":
            return [x + factor * y for x, y in zip(xs, n(f(xs)), strict=True)]
        depth = self.options["depth"]
        return n([2 * depth * x + y for x, y in zip(xs, f(n(xs)), strict=True)], "norm_output")

    def ngrams(self, seen):
        """The vectors of the last 2, 3, ... tokens seen, summed."""
        total, key = 0.0, seen[-1]
        for back in range(1, self.options.get("ngrams", 1)):
            key = (key * 1_000_003 + (seen[-1 - back] if back < len(seen) else 0)) % (2**31 - 1)
            rows = self.weights[f"ngrams.tables.{back - 1}.weight"]
            total = total + rows[key % len(rows)]
        return total

    def __call__(self, tokens):
        table = self.weights["embedding.weight"]
        root = math.sqrt(table.shape[1])
        xs = [table[token] + self.ngrams(tokens[: t + 1].tolist()) for t, token in enumerate(tokens)]
        xs = [x * (root if self.get("embedding_scale") == "sqrt" else 1) for x in xs]
        xs = self.stack(xs)
        if self.get("tied_embedding"):
            return torch.stack([table @ x + self.weights.get("output.bias", 0.0) for x in xs])
        return torch.stack([self.linear("output", x) for x in xs])

    def stack(self, xs):
        """What the blocks make of embedded tokens, with positions and the last norm."""
        if self.get("position", "learned") == "learned":
            xs = [x + self.weights["stack.positions"][t] for t, x in enumerate(xs)]
        if self.get("embedding_scale") == "learned":
            xs = [x * self.weights["stack.scale"] for x in xs]
        if self.get("embedding_norm"):
            xs = [self.norm("stack.embedding_norm", x) for x in xs]
        for k in range(self.options["depth"]):
            xs = self.residual(f"stack.blocks.{k}.attention", self.attention, xs, k + 1)
            xs = self.residual(f"stack.blocks.{k}.mlp", self.mlp, xs, k + 1)
        ends = self.get("norm_position", "pre") in ("post", "keel")
        if not ends if self.get("final_norm") is None else self.get("final_norm"):
            xs = [self.norm("stack.final_norm", x) for x in xs]
        return xs
