"""Training speed and memory of torch.compile alone and under triaccel.attach(compile="auto").

One process a row, alone on the GPU: compiled_models.py llama|vit plain|attach|captured [--steps N]. Prints one line of JSON.

llama: 415 million parameters (Hugging Face, random weights), 8 sequences of 1,024 tokens; vit: ViT-S/16 (timm), 128 images of
224 px. FP32 weights, BF16 by autocast, torch's fused AdamW, in all variants but "captured": compile="auto" with graphs="auto" and
triaccel.optim.AdamW.
"""
import argparse
import json
import statistics
import time

import torch


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
                         num_key_value_heads=2, vocab_size=32000, max_position_embeddings=1024, attn_implementation="sdpa",
                         use_cache=False)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    ids = torch.randint(0, 32000, (8, 1024), device="cuda")
    return model, {"input_ids": ids, "labels": ids}, lambda model, batch: model(**batch).loss


def vit():
    import timm

    with torch.device("cuda"):
        model = timm.create_model("vit_small_patch16_224", num_classes=10)
    batch = {"x": torch.randn(128, 3, 224, 224, device="cuda"), "y": torch.randint(10, (128,), device="cuda")}
    return model, batch, lambda model, b: torch.nn.functional.cross_entropy(model(b["x"]), b["y"])


def steps_of(variant, model, batch, loss_of):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    if variant != "plain":
        import triaccel

        captured = variant == "captured"
        if captured:
            optimizer = triaccel.optim.AdamW(model.parameters(), lr=1e-5)
        ta = triaccel.attach(model, optimizer, precision="bf16", compile="auto", graphs="auto" if captured else "off")
        return lambda: ta.step(batch, lambda part: loss_of(model, part))
    compiled = torch.compile(model)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of(compiled, batch)
        loss.backward()
        optimizer.step()
        return loss

    return step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=["llama", "vit"])
    parser.add_argument("variant", choices=["plain", "attach", "captured"])
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model, batch, loss_of = {"llama": llama, "vit": vit}[arguments.model]()
    step = steps_of(arguments.variant, model.train(), batch, loss_of)
    for _ in range(5):
        loss = step()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    times, host = [], 0.0
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(arguments.steps):
            loss = step()
        host = max(host, time.perf_counter() - start)
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start) / arguments.steps)
    print(json.dumps({"model": arguments.model, "variant": arguments.variant, "ms": round(statistics.median(times), 3),
                      "ms_least": round(min(times), 3), "host_ms": round(1e3 * host / arguments.steps, 3),
                      "reserved_mb": torch.cuda.max_memory_reserved() >> 20,
                      "allocated_mb": round(torch.cuda.max_memory_allocated() / 2**20, 1), "loss": round(loss.item(), 4),
                      "parameters": sum(p.numel() for p in model.parameters()), "torch": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
