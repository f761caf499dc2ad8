#!/usr/bin/env python3
"""Times one training step in PyTorch, for comparison with ours. One JSON object a method, or {"method", "error"}.

The step is forward, cross-entropy, backward and SGD with momentum, on one fixed random batch that lies on the device:
reading, augmenting and resizing data, which our own timing includes, are left out in PyTorch's favour.

  fp32, amp                 eager, as users write it (amp: FP16 and a gradient scaler on a GPU, BF16 on a CPU)
  fp32-channels-last        FP32 on NHWC
  fp32-no-onednn            FP32 without oneDNN, the fastest stock setting on Arm CPUs
  amp-channels-last         amp on NHWC
  amp-bf16-channels-last    BF16, NHWC, no scaler
  compile                   torch.compile of the last one, with the fused optimizer
  compile-reduce-overhead   the same, forward and backward as CUDA graphs
  compile-graph             compiled kernels, the whole step with its update captured in one CUDA graph and replayed

Memory is counted from the start of a method, capture and compilation included; give each method a process of its own,
so that no method finds memory another one reserved.
"""
import argparse
import gc
import json
import os
import pathlib
import statistics
import time

# Processes that come after this one find its compiled kernels; torch reads the variable when it is imported.
CACHE = pathlib.Path(__file__).resolve().parent.parent.parent / "build" / "inductor"
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(CACHE))

import torch  # noqa: E402
from torch import nn  # noqa: E402

from pytorch_models import make_model  # noqa: E402

METHODS = ["fp32", "fp32-channels-last", "fp32-no-onednn", "amp", "amp-channels-last", "amp-bf16-channels-last", "compile",
           "compile-reduce-overhead", "compile-graph"]
STEPS_PER_SAMPLE = 10  # on a GPU, so that it is never kept waiting for the clock


class Step:
    """One step of one method; calling it runs the step."""

    def __init__(self, args, method):
        device = torch.device(args.device)
        on_gpu = device.type == "cuda"
        compiled = method.startswith("compile")
        if method in ("compile-reduce-overhead", "compile-graph") and not on_gpu:
            raise RuntimeError(f"{method} needs a CUDA device, this is {args.device}")
        torch.manual_seed(1)
        # What is not meant as FP32 is autocast; FP32 itself stays exact.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = method not in ("fp32", "amp")
        torch.backends.mkldnn.set_flags(method != "fp32-no-onednn")
        self.model = make_model(args.model, args.stem).to(device)
        self.images = torch.randn(args.batch, 3, args.image_size, args.image_size, device=device)
        self.labels = torch.randint(0, 10, (args.batch,), device=device)
        if compiled or method.endswith("channels-last"):
            self.model = self.model.to(memory_format=torch.channels_last)
            self.images = self.images.contiguous(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4,
                                         fused=True if compiled and on_gpu else None)
        half = method in ("amp", "amp-channels-last") and on_gpu
        self.autocast = {"device_type": device.type, "dtype": torch.float16 if half else torch.bfloat16,
                         "enabled": not method.startswith("fp32"), "cache_enabled": method != "compile-graph"}
        self.scaler = torch.amp.GradScaler(device.type, enabled=half)
        self.loss_function = nn.CrossEntropyLoss()
        self.forward = self.loss
        if compiled:
            mode = "reduce-overhead" if method == "compile-reduce-overhead" else "default"
            self.forward = torch.compile(self.loss, mode=mode)
        self.run = self.captured(args.warmup) if method == "compile-graph" else self.eager

    def loss(self, images, labels):
        return self.loss_function(self.model(images), labels)

    def eager(self):
        self.optimizer.zero_grad()
        with torch.autocast(**self.autocast):
            loss = self.forward(self.images, self.labels)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def captured(self, warmup):
        # Compiling, searching for convolutions and creating momentum cannot be captured: eager steps come first.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(max(3, warmup)):
                self.eager()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self.optimizer.zero_grad(set_to_none=True)  # backward then makes the gradients in the graph's own pool
        gc.collect()
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
            with torch.autocast(**self.autocast):
                self.static_loss = self.forward(self.images, self.labels)
            self.static_loss.backward()
            self.optimizer.step()
        return graph.replay


def timed_on_gpu(step):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(STEPS_PER_SAMPLE):
        step.run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / STEPS_PER_SAMPLE


def timed_on_cpu(step):
    start = time.perf_counter()
    step.run()
    return 1e3 * (time.perf_counter() - start)


def measure(args, method):
    on_gpu = torch.device(args.device).type == "cuda"
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    step = Step(args, method)
    for _ in range(args.warmup):
        step.run()
    if on_gpu:
        torch.cuda.synchronize()
    seconds_before = time.perf_counter() - began
    timed = timed_on_gpu if on_gpu else timed_on_cpu
    timings = sorted(timed(step) for _ in range(args.samples))
    result = {"peer": f"PyTorch {torch.__version__}", "method": method, "model": args.model, "stem": args.stem,
              "image_size": args.image_size, "batch": args.batch, "ms": statistics.median(timings),
              "ms_p10": timings[int(0.1 * (len(timings) - 1) + 0.5)],
              "ms_p90": timings[int(0.9 * (len(timings) - 1) + 0.5)], "samples": args.samples,
              "seconds_before_first_sample": seconds_before}
    if on_gpu:
        result |= {"device": torch.cuda.get_device_name(), "allocated_mb": torch.cuda.max_memory_allocated() / 1e6,
                   "reserved_mb": torch.cuda.max_memory_reserved() / 1e6}
    else:
        result |= {"device": "cpu", "threads": torch.get_num_threads()}
    return result


def positive(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be positive, got {text}")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--model", default="resnet18", choices=["resnet18", "efficientnet-b0"])
    parser.add_argument("--stem", default="imagenet", choices=["imagenet", "cifar"], help="of resnet18")
    parser.add_argument("--batch", type=positive, default=96)
    parser.add_argument("--image-size", type=positive, default=32)
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (0: torch's choice)")
    parser.add_argument("--warmup", type=int, default=None, help="steps before the clock runs (12 on a GPU, else 5)")
    parser.add_argument("--samples", type=positive, default=20, help="timings, of 10 steps each on a GPU")
    parser.add_argument("--methods", default="fp32,amp", help="comma-separated, of: " + ", ".join(METHODS))
    args = parser.parse_args()
    methods = args.methods.split(",")
    for method in methods:
        if method not in METHODS:
            parser.error(f"unknown method '{method}'; there are {', '.join(METHODS)}")
    if args.warmup is None:
        args.warmup = 12 if torch.device(args.device).type == "cuda" else 5
    if args.threads:
        torch.set_num_threads(args.threads)
    for method in methods:
        try:
            result = measure(args, method)
        except Exception as error:  # whatever one method cannot do, the others are still measured
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            result = {"method": method, "error": f"{type(error).__name__}: {reason}"}
        print(json.dumps(result), flush=True)
        if method.startswith("compile"):
            torch._dynamo.reset()  # the next method compiles for itself
        gc.collect()


if __name__ == "__main__":
    main()
