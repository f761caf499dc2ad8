import torch, cudnn, time

print(cudnn.backend_version())
dev = "cuda"
bf = torch.bfloat16
T = cudnn.data_type
torch.backends.cudnn.benchmark = True
h = cudnn.create_handle()
cudnn.set_stream(h, torch.cuda.current_stream().cuda_stream)


def timed(f, n=20):
    for _ in range(3):
        f()
    e = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    best = 1e9
    for _ in range(3):
        e[0].record()
        for _ in range(n):
            f()
        e[1].record()
        torch.cuda.synchronize()
        best = min(best, e[0].elapsed_time(e[1]) / n * 1e3)
    return best


def plans(build, feed, limit=8):
    g = cudnn.pygraph(io_data_type=T.BFLOAT16, intermediate_data_type=T.FLOAT, compute_data_type=T.FLOAT, handle=h)
    t = build(g)
    try:
        g.validate()
        g.build_operation_graph()
        g.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        g.check_support()
    except Exception as x:
        return "unsupported " + str(x)[:150]
    best = (1e9, None, 0)
    tried = 0
    err = ""
    for i in range(g.get_execution_plan_count()):
        if tried >= limit:
            break
        try:
            t0 = time.time()
            g.build_plan_at_index(i)
            dt = time.time() - t0
            ws = torch.empty(max(1, g.get_workspace_size_plan_at_index(i)), dtype=torch.uint8, device=dev)
            pack = {t[k]: v for k, v in feed.items()}
            us = timed(lambda: g.execute_plan_at_index(pack, ws, i, handle=h))
            tried += 1
            name = ""
            try:
                name = g.get_plan_name_at_index(i)
            except Exception:
                pass
            if us < best[0]:
                best = (us, i, ws.numel(), round(dt, 2), name)
        except Exception as x:
            err = str(x)[:100]
    return (tuple(best), tried, err)


for n, c, k, s, hw, ks in [
    (1024, 64, 64, 1, 32, 3),
    (1024, 64, 128, 2, 32, 3),
    (1024, 128, 128, 1, 16, 3),
    (1024, 256, 256, 1, 8, 3),
    (1024, 512, 512, 1, 4, 3),
    (96, 64, 64, 1, 32, 3),
    (96, 128, 128, 1, 16, 3),
    (1024, 64, 64, 1, 8, 3),
    (1024, 128, 128, 1, 4, 3),
    (96, 64, 64, 1, 8, 3),
]:
    cl = torch.channels_last
    x = torch.randn(n, c, hw, hw, device=dev, dtype=bf).to(memory_format=cl)
    w = (torch.randn(k, c, ks, ks, device=dev, dtype=bf) * 0.05).to(memory_format=cl)
    y = torch.nn.functional.conv2d(x, w, None, s, 1)
    dy = torch.randn_like(y)
    base = timed(lambda: torch.nn.functional.conv2d(x, w, None, s, 1))
    out = torch.empty_like(y)
    su = torch.empty(1, k, 1, 1, device=dev)
    sq = torch.empty_like(su)
    sc = torch.rand(1, c, 1, 1, device=dev, dtype=bf)
    bi = torch.rand(1, c, 1, 1, device=dev, dtype=bf)

    def conv(g):
        X = g.tensor_like(x)
        W = g.tensor_like(w)
        Y = g.conv_fprop(image=X, weight=W, padding=[1, 1], stride=[s, s], dilation=[1, 1])
        Y.set_output(True).set_data_type(T.BFLOAT16)
        return dict(x=X, w=W, y=Y)

    def stats(g):
        X = g.tensor_like(x)
        W = g.tensor_like(w)
        Y = g.conv_fprop(image=X, weight=W, padding=[1, 1], stride=[s, s], dilation=[1, 1])
        Y.set_output(True).set_data_type(T.BFLOAT16)
        S, Q = g.genstats(input=Y)
        S.set_output(True).set_data_type(T.FLOAT)
        Q.set_output(True).set_data_type(T.FLOAT)
        return dict(x=X, w=W, y=Y, s=S, q=Q)

    def full(g):
        X = g.tensor_like(x)
        W = g.tensor_like(w)
        A = g.tensor_like(sc)
        B = g.tensor_like(bi)
        Z = g.relu(input=g.bias(input=g.scale(input=X, scale=A), bias=B))
        Z.set_data_type(T.BFLOAT16)
        Y = g.conv_fprop(image=Z, weight=W, padding=[1, 1], stride=[s, s], dilation=[1, 1])
        Y.set_output(True).set_data_type(T.BFLOAT16)
        S, Q = g.genstats(input=Y)
        S.set_output(True).set_data_type(T.FLOAT)
        Q.set_output(True).set_data_type(T.FLOAT)
        return dict(x=X, w=W, y=Y, s=S, q=Q, a=A, b=B)

    print((n, c, k, s, hw), "torch %.1f" % base, flush=True)
    try:
        print("  conv ", plans(conv, dict(x=x, w=w, y=out), 6), flush=True)
        print("  stats", plans(stats, dict(x=x, w=w, y=out, s=su, q=sq)), flush=True)
        ref = y.float().sum((0, 2, 3))
        print("     sum error", ((su.flatten() - ref).abs().max() / ref.abs().max()).item())
        print("  full ", plans(full, dict(x=x, w=w, y=out, s=su, q=sq, a=sc, b=bi), 4), flush=True)
    except Exception as e:
        print("  error", str(e)[:300], flush=True)
