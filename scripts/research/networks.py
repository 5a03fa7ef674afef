"""Public networks, built small: library -> name -> (how to build it, a batch of noise)."""

# ruff: noqa: E501, E731, SIM905

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

N, SIDE, WORDS = 8, 32, 97  # samples, pixels of a side, tokens of a vocabulary
LIBRARIES = (
    "torchvision",
    "timm",
    "transformers",
    "diffusers",
    "smp",
    "monai",
    "pyg",
    "x_transformers",
    "ultralytics",
)
Networks = dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]]


def images(side: int = SIDE, channels: int = 3, classes: int = 10, n: int = N) -> tuple[Tensor, Tensor]:
    return torch.randn(n, channels, side, side), torch.randint(0, classes, (n,))


def to_images(
    side: int = SIDE, channels: int = 3, classes: int = 2, n: int = N, dims: int = 2
) -> tuple[Tensor, Tensor]:
    """Images, and a class for each pixel."""
    shape = [side] * dims
    return torch.randn(n, channels, *shape), torch.randint(0, classes, (n, *shape))


def of(library: str) -> Networks:
    """The networks of a library."""
    return globals()[library]()


def torchvision() -> Networks:
    from torchvision import models

    names = """resnet18 vgg11_bn densenet121 mobilenet_v2 mobilenet_v3_small efficientnet_b0 regnet_y_400mf regnet_x_400mf
        shufflenet_v2_x0_5 mnasnet0_5 convnext_tiny swin_t swin_v2_t resnext50_32x4d wide_resnet50_2 efficientnet_v2_s resnet50""".split()
    make: Networks = {
        name: (functools.partial(models.get_model, name, weights=None, num_classes=10), images)
        for name in names
    }
    goog = functools.partial(models.googlenet, num_classes=10, init_weights=True, aux_logits=False)
    make["googlenet"] = goog, functools.partial(images, 64)
    make["vit"] = functools.partial(models.VisionTransformer, SIDE, 8, 2, 4, 64, 128, num_classes=10), images
    small = {
        "stem_channels": 16,
        "block_channels": [16, 32],
        "block_layers": [1, 1],
        "head_dim": 8,
        "partition_size": 4,
    }
    make["maxvit"] = (
        functools.partial(models.MaxVit, input_size=(32, 32), stochastic_depth_prob=0.1, num_classes=10, **small), images
    )  # fmt: skip
    for name in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"):
        seg = functools.partial(models.get_model, name, weights=None, weights_backbone=None, num_classes=2)
        make[name] = seg, functools.partial(to_images, 64)
    for name in ("r3d_18", "mc3_18"):
        video = functools.partial(models.get_model, name, weights=None, num_classes=10)
        make[name] = video, lambda: (torch.randn(N, 3, 4, 32, 32), torch.randint(0, 10, (N,)))
    return make


def timm() -> Networks:
    create = importlib.import_module("timm").create_model
    names = """test_byobnet test_convnext test_convnext2 test_convnext3 test_efficientnet test_efficientnet_evos
        test_efficientnet_gn test_efficientnet_ln test_mambaout test_nfnet test_resnet resnet10t resnetv2_18 resnetv2_18d
        resnet26d convnext_atto convnextv2_atto mobilenetv3_small_050 mobilenetv4_conv_small_050 regnetx_002 regnety_002
        ghostnet_050 repvgg_a0 mobileone_s0 lcnet_050 tinynet_e mixnet_s edgenext_xx_small poolformer_s12
        dla46_c hardcorenas_a skresnet18 seresnet18 ese_vovnet19b_slim efficientnet_lite0 mnasnet_small spnasnet_100 fbnetc_100
        cs3darknet_focus_s res2net50_14w_8s hgnetv2_b0 repghostnet_050 starnet_s1 rexnet_100 fasternet_t0 shvit_s1
        resnet50_gn resnetv2_50x1_bit semnasnet_075 efficientvit_b0 repvit_m0_9 semobilevit""".split()
    known = set(importlib.import_module("timm").list_models())
    make: Networks = {
        name: (functools.partial(create, name, num_classes=10), images)
        for name in names if name in known
    }  # fmt: skip
    vits = """test_vit test_vit2 test_vit3 test_vit4 test_vit_relpos vit_tiny_patch16_224 deit_tiny_patch16_224
        eva02_tiny_patch14_224 cait_xxs24_224 xcit_nano_12_p16_224 mixer_s32_224 gmlp_ti16_224 resmlp_12_224""".split()
    for name in vits:
        few = {"depth": 2} if name[0] in "vdec" and "test" not in name and "xcit" not in name else {}
        side = 56 if "patch14" in name else 160 if name.startswith("test") else 64
        make[name] = (
            functools.partial(create, name, num_classes=10, img_size=side, **few),
            functools.partial(images, side),
        )
    hierarchic = {
        "swin_tiny_patch4_window7_224": {"embed_dim": 24, "depths": (1, 1), "num_heads": (2, 2), "window_size": 4},
        "swinv2_tiny_window8_256": {"embed_dim": 24, "depths": (1, 1), "num_heads": (2, 2), "window_size": 4},
        "maxvit_rmlp_pico_rw_256": {}, "coatnet_pico_rw_224": {}, "pvt_v2_b0": {}, "levit_128s": {}, "mobilevit_xxs": {},
        "tiny_vit_5m_224": {}, "davit_tiny": {"depths": (1, 1, 1, 1)}, "fastvit_t8": {}, "ghostnetv2_100": {}, "efficientformer_l1": {},
    }  # fmt: skip
    for name, more in hierarchic.items():
        side = (
            224
            if name in ("levit_128s", "efficientformer_l1", "coatnet_pico_rw_224", "tiny_vit_5m_224")
            else 64
        )
        sized = {"img_size": side} if name.startswith(("swin", "maxvit", "coatnet")) else {}
        make[name] = (
            functools.partial(create, name, num_classes=10, **sized, **more),
            functools.partial(images, side),
        )
    return make


SMALL = {
    "vocab_size": WORDS, "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "embed_dim": 32, "embedding_size": 32,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4, "head_dim": 8,
    "decoder_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64, "hidden_dim": 64, "ffn_dim": 64,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "d_ff": 64, "d_kv": 8, "d_inner": 64, "moe_intermediate_size": 32,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
    "first_k_dense_replace": 1, "image_size": SIDE, "patch_size": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1, "state_size": 8, "num_decoder_layers": 2, "conv_kernel": 4, "max_position_embeddings": 64,
    "word_embed_proj_dim": 32, "rotary_dim": 8, "attention_hidden_size": 32, "sliding_window": 16, "lru_width": 32,
    "max_source_positions": 64, "embedding_dim": 32, "dropout": 0.0, "mamba_num_heads": 4, "expand_ratio": 2,
}  # fmt: skip
CAUSAL = """llama gpt2 gpt_neox gptj opt bloom falcon phi phi3 mistral mixtral qwen2 qwen3 qwen3_moe gemma gemma2 gemma3_text olmo
    olmo2 olmo3 cohere cohere2 stablelm starcoder2 granite glm glm4 smollm3 nemotron persimmon mpt codegen biogpt xglm mamba
    recurrent_gemma olmoe helium ernie4_5 exaone4 arcee""".split()
MASKED = "bert roberta distilbert albert electra deberta-v2 mpnet xlm-roberta camembert modernbert mobilebert convbert nystromformer".split()
SEQUENCE = "t5 bart mbart pegasus marian m2m_100 blenderbot".split()
VISION: dict[str, dict] = {
    "vit": {}, "beit": {}, "dinov2": {}, "dinov2_with_registers": {},
    "resnet": {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"},
    "convnext": {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2},
    "convnextv2": {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2},
    "swin": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2, "patch_size": 4},
    "swinv2": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2, "patch_size": 4},
    "segformer": {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 2]},
    "regnet": {"hidden_sizes": [16, 32, 32, 48], "depths": [1, 1, 1, 1], "groups_width": 8},
    "bit": {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "num_groups": 4},
    "poolformer": {"hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1]}, "mobilenet_v2": {}, "mobilenet_v1": {},
}  # fmt: skip


TEXT = {  # what differs
    "nemotron": {"num_key_value_heads": 2}, "recurrent_gemma": {"use_cache": False},
    "t5": {"decoder_start_token_id": 0},
}  # fmt: skip


def transformers() -> Networks:
    t = importlib.import_module("transformers")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    def build(kind: str, auto: str, more: dict) -> nn.Module:
        known = CONFIG_MAPPING[kind]()
        fixed = [k for k in SMALL if isinstance(getattr(type(known), k, None), property)]
        same = [k for k in SMALL if k not in fixed and isinstance(getattr(known, k, None), (int, float))]
        given = {k: SMALL[k] for k in same} | more
        return getattr(t, auto).from_config(CONFIG_MAPPING[kind](**given))

    def texts() -> dict:
        x = torch.randint(3, WORDS, (N, 16))
        return {"input_ids": x, "labels": x}

    def pixels() -> dict:
        return {"pixel_values": torch.randn(N, 3, SIDE, SIDE), "labels": torch.randint(0, 2, (N,))}

    make: Networks = {}
    for auto, kinds in (("CausalLM", CAUSAL), ("MaskedLM", MASKED), ("Seq2SeqLM", SEQUENCE)):
        for kind in kinds:
            make[kind] = functools.partial(build, kind, f"AutoModelFor{auto}", TEXT.get(kind, {})), texts
    for kind, more in VISION.items():
        make[kind] = functools.partial(build, kind, "AutoModelForImageClassification", more), pixels
    return make


def diffusers() -> Networks:
    d = importlib.import_module("diffusers")
    noise = lambda c=3, s=16: {"sample": torch.randn(N, c, s, s), "timestep": torch.randint(0, 99, (N,))}
    text = lambda: {"encoder_hidden_states": torch.randn(N, 6, 16)}
    blocks = {"block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 8, "sample_size": 16}
    attention = {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 2}
    down, up = ("DownBlock2D", "AttnDownBlock2D"), ("AttnUpBlock2D", "UpBlock2D")
    cross = {
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
    }
    vae = {
        "block_out_channels": (16, 32),
        "norm_num_groups": 8,
        "down_block_types": ("DownEncoderBlock2D",) * 2,
    }
    vae |= {"up_block_types": ("UpDecoderBlock2D",) * 2}
    pictures = lambda: {"sample": torch.randn(N, 3, 16, 16)}
    classes = lambda: {
        "hidden_states": torch.randn(N, 4, 8, 8),
        "timestep": torch.randint(0, 99, (N,)),
        "class_labels": torch.randint(0, 9, (N,)),
    }
    sd3 = lambda: (
        {"hidden_states": torch.randn(N, 4, 8, 8), "timestep": torch.rand(N) * 99}
        | text()
        | {"pooled_projections": torch.randn(N, 16)}
    )
    pix = lambda: {"hidden_states": torch.randn(N, 4, 8, 8), "timestep": torch.randint(0, 99, (N,))} | text()

    def flux() -> dict:
        ids = {"img_ids": torch.zeros(16, 3), "txt_ids": torch.zeros(6, 3)}
        inputs = {"hidden_states": torch.randn(N, 16, 4), "encoder_hidden_states": torch.randn(N, 6, 16)}
        return inputs | ids | {"pooled_projections": torch.randn(N, 16), "timestep": torch.rand(N)}

    p = functools.partial
    return {
        "UNet2D": (p(d.UNet2DModel, down_block_types=down, up_block_types=up, attention_head_dim=8, **blocks), noise),
        "UNet2DCondition": (p(d.UNet2DConditionModel, cross_attention_dim=16, attention_head_dim=2, **cross, **blocks),
                            lambda: noise(4) | text()),
        "AutoencoderKL": (p(d.AutoencoderKL, **vae), pictures),
        "VQModel": (p(d.VQModel, block_out_channels=(16, 32), norm_num_groups=8, down_block_types=("DownEncoderBlock2D",) * 2,
                      up_block_types=("UpDecoderBlock2D",) * 2), pictures),
        "AutoencoderTiny": (p(d.AutoencoderTiny, encoder_block_out_channels=(16, 16), decoder_block_out_channels=(16, 16),
                              num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1)), pictures),
        "DiT": (p(d.DiTTransformer2DModel, sample_size=8, in_channels=4, num_embeds_ada_norm=10, patch_size=2, **attention), classes),
        "PixArt": (p(d.PixArtTransformer2DModel, sample_size=8, in_channels=4, out_channels=8, cross_attention_dim=16,
                     caption_channels=16, use_additional_conditions=False, **attention), pix),
        "SD3": (p(d.SD3Transformer2DModel, sample_size=8, in_channels=4, joint_attention_dim=16, caption_projection_dim=16,
                  pooled_projection_dim=16, pos_embed_max_size=8, **attention), sd3),
        "Flux": (p(d.FluxTransformer2DModel, in_channels=4, num_single_layers=1, num_layers=1, attention_head_dim=16,
                   num_attention_heads=2, joint_attention_dim=16, pooled_projection_dim=16, axes_dims_rope=(4, 4, 8)), flux),
        "Prior": (p(d.PriorTransformer, embedding_dim=16, num_embeddings=4, additional_embeddings=4, **attention),
                  lambda: {"hidden_states": torch.randn(N, 16), "timestep": 3, "proj_embedding": torch.randn(N, 16)}
                  | {"encoder_hidden_states": torch.randn(N, 4, 16)}),
        "UNet3DCondition": (p(d.UNet3DConditionModel, cross_attention_dim=16, attention_head_dim=8, block_out_channels=(16, 32),
                              layers_per_block=1, norm_num_groups=8, down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
                              up_block_types=("UpBlock3D", "CrossAttnUpBlock3D")),
                            lambda: {"sample": torch.randn(N, 4, 4, 16, 16), "timestep": torch.randint(0, 99, (N,))} | text()),
    }  # fmt: skip


def smp() -> Networks:
    library = importlib.import_module("segmentation_models_pytorch")
    make: Networks = {}
    for (
        name
    ) in "Unet UnetPlusPlus MAnet Linknet FPN PSPNet DeepLabV3 DeepLabV3Plus UPerNet Segformer".split():
        for encoder in (
            ("resnet18",) if name != "Unet" else ("resnet18", "mobilenet_v2", "efficientnet-b0", "mit_b0")
        ):
            build = functools.partial(getattr(library, name), encoder, encoder_weights=None, classes=2)
            make[f"{name} {encoder}"] = build, functools.partial(to_images, 64)
    return make


def monai() -> Networks:
    n = importlib.import_module("monai.networks.nets")
    plane, p = functools.partial(to_images, channels=1), functools.partial
    plain = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2}
    unet = {"channels": (8, 16, 32), "strides": (2, 2)}
    norms: tuple[Any, ...] = ("instance", "batch", ("group", {"num_groups": 4}))
    make: Networks = {
        f"UNet {norm}": (p(n.UNet, **plain, **unet, norm=norm), plane)
        for norm in norms
    }  # fmt: skip
    volume = functools.partial(to_images, 16, 1, n=N, dims=3)
    make |= {
        "UNet 3d": (p(n.UNet, spatial_dims=3, in_channels=1, out_channels=2, **unet), volume),
        "BasicUNet": (p(n.BasicUNet, **plain, features=(8, 8, 16, 16, 32, 8)), plane),
        "SegResNet": (p(n.SegResNet, **plain, init_filters=8), plane),
        "DynUNet": (p(n.DynUNet, **plain, kernel_size=[3, 3, 3], strides=[1, 2, 2], upsample_kernel_size=[2, 2], filters=[8, 16, 32]), plane),
        "AttentionUnet": (p(n.AttentionUnet, **plain, **unet), plane),
        "UNETR": (p(n.UNETR, 1, 2, (SIDE, SIDE), feature_size=8, hidden_size=32, mlp_dim=64, num_heads=4, spatial_dims=2), plane),
        "SwinUNETR": (p(n.SwinUNETR, 1, 2, feature_size=12, depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 2), spatial_dims=2), p(to_images, 64, 1)),
        "VNet": (p(n.VNet, 2, 1, 2), plane),
        "HighResNet": (p(n.HighResNet, 2, 1, 2), p(to_images, 16, 1)),
        "DenseNet121": (p(n.DenseNet121, 2, 1, 10, init_features=8, growth_rate=4), p(images, 32, 1)),
        "SEResNet50": (p(n.SEResNet50, spatial_dims=2, in_channels=1, num_classes=10), p(images, 32, 1)),
        "EfficientNetBN": (p(n.EfficientNetBN, "efficientnet-b0", False, spatial_dims=2, in_channels=1, num_classes=10), p(images, 64, 1)),
        "resnet10": (p(n.resnet10, spatial_dims=2, n_input_channels=1, num_classes=10), p(images, 32, 1)),
        "ViTAutoEnc": (p(n.ViTAutoEnc, 1, (SIDE, SIDE), (4, 4), hidden_size=32, mlp_dim=64, num_layers=2, num_heads=4, spatial_dims=2),
                       lambda: images(SIDE, 1)[0]),
        "AutoEncoder": (p(n.AutoEncoder, 2, 1, 1, channels=(8, 16), strides=(2, 2)), lambda: images(SIDE, 1)[0]),
        "Regressor": (p(n.Regressor, (1, SIDE, SIDE), 10, channels=(8, 16), strides=(2, 2)), p(images, SIDE, 1)),
        "Discriminator": (p(n.Discriminator, (1, SIDE, SIDE), channels=(8, 16), strides=(2, 2)), lambda: images(SIDE, 1)[0]),
    }  # fmt: skip
    return make


def pyg() -> Networks:
    g = importlib.import_module("torch_geometric.nn")

    def graph() -> tuple:
        edges = torch.randint(0, 64, (2, 256))
        return torch.randn(64, 8), edges, torch.randint(0, 4, (64,))

    kinds = [
        (name, norm)
        for name in ("GCN", "GIN", "GAT", "GraphSAGE")
        for norm in ("BatchNorm", "LayerNorm", "GraphNorm")
    ]
    kinds += [("GCN", norm) for norm in ("InstanceNorm", "PairNorm", "DiffGroupNorm")]
    more = {"DiffGroupNorm": {"groups": 4}}
    return {
        f"{name} {norm}": (
            functools.partial(getattr(g, name), 8, 16, 3, 4, norm=norm, norm_kwargs=more.get(norm)),
            graph,
        )
        for name, norm in kinds
    }


def x_transformers() -> Networks:
    x = importlib.import_module("x_transformers")
    ways: dict[str, dict] = {
        "layernorm": {}, "rmsnorm": {"use_rmsnorm": True}, "simple_rmsnorm": {"use_simple_rmsnorm": True},
        "scalenorm": {"use_scalenorm": True}, "dynamic_tanh": {"use_dynamic_tanh": True}, "post": {"pre_norm": False},
        "sandwich": {"sandwich_norm": True}, 
        "qk_norm": {"attn_qk_norm": True}, "qk_rmsnorm": {"attn_qk_norm": True, "attn_qk_norm_dim_scale": True},
        "macaron": {"macaron": True}, "gated": {"ff_glu": True, "gate_residual": True}, "adaptive": {"ff_post_act_ln": True},
    }  # fmt: skip

    def build(more: dict) -> nn.Module:
        layers = x.Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **more)
        return x.TransformerWrapper(num_tokens=WORDS, max_seq_len=32, attn_layers=layers)

    def texts() -> tuple:
        t = torch.randint(0, WORDS, (N, 17))
        return t[:, :-1], t[:, 1:]

    make: Networks = {name: (functools.partial(build, more), texts) for name, more in ways.items()}
    vit = lambda: x.ViTransformerWrapper(
        image_size=SIDE,
        patch_size=8,
        num_classes=10,
        attn_layers=x.Encoder(dim=32, depth=2, heads=4, attn_dim_head=8),
    )
    return make | {"vit": (vit, images)}


def ultralytics() -> Networks:
    tasks = importlib.import_module("ultralytics.nn.tasks")
    defaults = importlib.import_module("ultralytics.cfg").get_cfg()

    def detector(name: str) -> nn.Module:
        model = tasks.DetectionModel(f"{name}.yaml", nc=3, verbose=False)
        model.args = defaults
        return model

    def boxes() -> dict:
        some = {
            "batch_idx": torch.arange(N),
            "cls": torch.randint(0, 3, (N, 1)).float(),
            "bboxes": torch.rand(N, 4) / 2 + 0.2,
        }
        return {"img": torch.rand(N, 3, 64, 64), **some}

    make: Networks = {
        name: (functools.partial(detector, name), boxes) for name in ("yolov8n", "yolo11n", "yolov5n")
    }
    for name in ("yolov8n-cls", "yolo11n-cls"):
        make[name] = (
            functools.partial(tasks.ClassificationModel, f"{name}.yaml", nc=10, verbose=False),
            functools.partial(images, 64),
        )
    return make
