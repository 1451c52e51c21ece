"""Causal attention over sequences that may be split across context-parallel ranks.

Shapes: queries [s, b, k, r, g], keys and values [s, b, k, g], with s tokens, b sequences, k
key-value heads, r query heads for each of them, and heads of size g. s counts only the tokens of
this rank.
"""

import torch
import torch.nn.functional as F

from . import comm

HAS_FUSED = hasattr(F, "scaled_dot_product_attention")  # since PyTorch 2


def positions_of(rank, parts, length, kind):
    """Returns the positions in the sequence of a rank's tokens. With rings and gathers, each rank
    has an early and a late slice, because a late token attends to more tokens."""
    if parts == 1 or kind == "ulysses":
        size = length // parts
        return torch.arange(rank * size, (rank + 1) * size)
    size = length // (2 * parts)
    slices = torch.arange(length).view(2 * parts, size)
    return torch.cat([slices[rank], slices[2 * parts - 1 - rank]])


def attend(q, k, v, setting):
    group = setting.groups["context"]
    kind = setting.plan.context_parallel_kind
    if group.size == 1:
        return _local(q, k, v, setting.positions, setting.positions, setting.fused_attention)
    if kind == "ring":
        return _Ring.apply(q, k, v, setting)
    if kind == "all_gather":
        places = torch.cat(setting.all_positions).to(q.device)
        return _local(q, comm.gather(k, group), comm.gather(v, group), setting.positions, places, False)
    # Ulysses exchanges heads for tokens, so that each rank has the whole sequence of some heads.
    places = torch.arange(q.shape[0] * group.size, device=q.device)
    q, k, v = (_heads_for_tokens(x, group) for x in (q, k, v))
    return _tokens_for_heads(_local(q, k, v, places, places, setting.fused_attention), group)


def _heads_for_tokens(x, group):
    x = x.unflatten(2, (group.size, x.shape[2] // group.size)).movedim(2, 0)
    return comm.exchange(x.contiguous(), group).flatten(0, 1)


def _tokens_for_heads(x, group):
    x = x.unflatten(0, (group.size, x.shape[0] // group.size))
    return comm.exchange(x.contiguous(), group).movedim(0, 2).flatten(2, 3)


def _local(q, k, v, q_positions, k_positions, fused):
    """Returns the attention when all keys are on this rank. `fused` needs positions in order."""
    s, b, heads, ratio, g = q.shape
    if fused:
        wide = (b, heads, ratio, k.shape[0], g)
        out = F.scaled_dot_product_attention(
            q.permute(1, 2, 3, 0, 4).flatten(1, 2),
            *(x.permute(1, 2, 0, 3).unsqueeze(2).expand(wide).flatten(1, 2) for x in (k, v)),
            is_causal=True)
        return out.unflatten(1, (heads, ratio)).permute(3, 0, 1, 2, 4)
    scores = _rows(q) @ _columns(k).transpose(1, 2) * g ** -0.5
    scores = scores.float().view(b * heads, ratio, s, -1)
    scores = scores.masked_fill(k_positions > q_positions[:, None], float("-inf"))
    out = scores.softmax(-1).to(q.dtype).flatten(1, 2) @ _columns(v)
    return out.view(b, heads, ratio, s, g).permute(3, 0, 1, 2, 4)


def _rows(q):
    """Reshapes [s, b, k, r, g] to [b k, r s, g], so that all queries of a key-value head are in one
    product."""
    return q.permute(1, 2, 3, 0, 4).flatten(2, 3).flatten(0, 1)


def _columns(k):
    """Reshapes [s, b, k, g] to [b k, s, g]."""
    return k.permute(1, 2, 0, 3).flatten(0, 1)


class _Ring(torch.autograd.Function):
    """Ring attention. Keys and values go round, and each rank accumulates the results of its
    queries over all parts with a running log-sum-exp (Liu et al. 2023, arXiv 2310.01889). The
    backward pass sends the gradients of keys and values round together with them."""

    @staticmethod
    def forward(ctx, q, k, v, setting):
        group = setting.groups["context"]
        # Detached, because a saved tensor may be a view of the input, whose graph a checkpoint
        # would lose.
        queries = _rows(q.detach()).float().unflatten(1, (q.shape[3], -1))  # [b k, r, s, g]
        pair = torch.stack([_columns(k), _columns(v)])
        out = torch.zeros_like(queries)
        lse = queries.new_full(queries.shape[:3], float("-inf"))
        travelling = pair
        for step in range(group.size):
            rows, cols, later = _piece(setting, step)
            keys, values = travelling[:, :, cols].float()
            scores = _scores(queries[:, :, rows], keys, later)
            piece = scores.logsumexp(-1)
            total = torch.logaddexp(lse[:, :, rows], piece)
            out[:, :, rows] = (out[:, :, rows] * (lse[:, :, rows] - total).exp()[..., None]
                               + _times((scores - total[..., None]).exp(), values))
            lse[:, :, rows] = total
            if step + 1 < group.size:
                travelling = comm.shift(travelling, group)
        ctx.save_for_backward(queries, pair, out, lse)
        ctx.setting, ctx.dtype = setting, q.dtype
        return _back(out, q.shape).to(q.dtype)

    @staticmethod
    def backward(ctx, grad):
        queries, pair, out, lse = ctx.saved_tensors
        group = ctx.setting.groups["context"]
        shape, ratio, scale = grad.shape, grad.shape[3], queries.shape[-1] ** -0.5
        grad = _rows(grad).float().unflatten(1, (ratio, -1))
        delta = (grad * out).sum(-1, keepdim=True)
        d_queries = torch.zeros_like(queries)
        d_pair = torch.zeros_like(pair, dtype=torch.float32)
        for step in range(group.size):
            rows, cols, later = _piece(ctx.setting, step)
            keys, values = pair[:, :, cols].float()
            share = (_scores(queries[:, :, rows], keys, later) - lse[:, :, rows, None]).exp()
            d_scores = share * (_times(grad[:, :, rows], values.transpose(1, 2))
                                - delta[:, :, rows]) * scale
            d_queries[:, :, rows] += _times(d_scores, keys)
            d_pair[0][:, cols] += _over_rows(d_scores, queries[:, :, rows])
            d_pair[1][:, cols] += _over_rows(share, grad[:, :, rows])
            if step + 1 < group.size:
                pair = comm.shift(pair, group)
            d_pair = comm.shift(d_pair, group)  # after the last step it has returned to its own rank
        b, heads = shape[1], shape[2]
        d_keys, d_values = (d.unflatten(0, (b, heads)).permute(2, 0, 1, 3).to(ctx.dtype) for d in d_pair)
        return _back(d_queries, shape).to(ctx.dtype), d_keys, d_values, None


def _piece(setting, step):
    """Returns the slices of the queries and of the current keys that attend to each other, and a
    mask of keys that come later than a query (None if there are none). For a rank's own part, the
    slices are whole and there is a mask. For an earlier rank's part, all queries attend to only the
    early keys. For a later rank's part, only the late queries attend, and they attend to all
    keys."""
    group = setting.groups["context"]
    mine = setting.all_positions[group.rank]
    theirs = setting.all_positions[(group.rank - step) % group.size]
    rows = slice(int((mine < theirs[0]).sum()), None)
    cols = slice(0, int((theirs <= mine[-1]).sum()))
    later = theirs[cols] > mine[rows, None]
    return rows, cols, later.to(setting.device) if later.any() else None


def _scores(queries, keys, later):
    scores = _times(queries, keys.transpose(1, 2)) * queries.shape[-1] ** -0.5
    return scores if later is None else scores.masked_fill(later, float("-inf"))


def _times(rows, columns):
    """Multiplies [B, r, s, x] by [B, x, y], with the rows of all r in one product."""
    return (rows.flatten(1, 2) @ columns).unflatten(1, rows.shape[1:3])


def _over_rows(left, right):
    """Multiplies [B, r, s, x] and [B, r, s, y] to [B, x, y], summed over the rows of all r."""
    return left.flatten(1, 2).transpose(1, 2) @ right.flatten(1, 2)


def _back(rows, shape):
    """Reshapes [b k, r, s, g] to [s, b, k, r, g]."""
    return rows.unflatten(0, shape[1:3]).permute(3, 0, 1, 2, 4)
