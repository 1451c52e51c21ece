#include <algorithm>

#include "estimator/layer/layer_program.h"
#include "estimator/terms/kernel.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"

namespace meshwright {
namespace {

// Tokens of a chunk, inside which a scan is a product of matrices: flash-linear-attention's kernels
// of gated delta rules, and Mamba-2's (mamba_ssm, ssd_combined, chunk_size).
constexpr double kDeltaChunk = 64;
constexpr double kStateSpaceChunk = 256;
// A state is written once and read once, in fp32.
constexpr double kStateBytes = 8;
// Mamba-1's scan reads x, its step size and its gate and writes its output, and runs as long again
// because it has no products of matrices (arXiv 2312.00752, section 3.3).
constexpr double kSelectiveScanBytes = 16;

// The projections into and out of a scan, and what lies between them. Widths are before the
// division by tensor parallelism.
struct ScanWidths {
  double mixed = 0;   // goes through the convolution into the scan
  double gates = 0;   // beside it: output gate, decays, step sizes
  double output = 0;  // of the scan
};

void AppendScanInput(const LayerContext& c, const ScanWidths& widths, int convolution_size,
                     LayerProgram& program) {
  const double t = c.sharding.tensor_parallel;
  const double n = TokensPerRank(c);
  const double h = c.model.hidden_size;
  AppendTensorParallel(c, h, 0, program);
  const double into = (widths.mixed + widths.gates) / t;
  program.kernels.push_back(Matmul("scan input", {.m = n, .n = into, .k = h}, 2 * n * into, 0));
  if (convolution_size > 0) {
    const double elements = n * widths.mixed / t;
    Kernel convolution = MemoryBound("short convolution", 4 * elements, 8 * elements);
    convolution.stored_bytes = RoundedBytes(2 * elements);
    convolution.modules = kCoreAttention;
    program.kernels.push_back(convolution);
  }
  if (c.sharding.context_parallel > 1) {
    // Ranks exchange heads for sequence before the scan and back after it, as Megatron-Core does
    // for Mamba (megatron/core/ssm/mamba_context_parallel.py).
    program.collectives.push_back(
        {.kind = CollectiveKind::kAllToAll,
         .group = CommunicationGroup::kContext,
         .bytes = RoundedBytes(n * (widths.mixed + widths.gates + widths.output) / t),
         .forward_count = 2,
         .backward_count = 2});
  }
}

// Appends the norm of the scan's output, the product with its gate, and the output projection.
void AppendScanOutput(const LayerContext& c, const ScanWidths& widths, LayerProgram& program) {
  const double t = c.sharding.tensor_parallel;
  const double n = TokensPerRank(c);
  const double width = widths.output / t;
  AppendNorm(c, width, n, 2, program);
  program.kernels.push_back(MemoryBound("output gate", 6 * n * width, 10 * n * width));
  program.kernels.push_back(Matmul("projection",
                                   {.m = n, .n = c.model.hidden_size * 1.0, .k = width},
                                   KeptInputBytes(c) * n * width, 0));
}

// Appends a product of matrices for each chunk and head.
void AppendProduct(double m, double n, double k, double count, LayerProgram& program) {
  program.kernels.push_back(
      Matmul("scan", {.m = m, .n = n, .k = k, .count = count}, 0, kCoreAttention));
}

// Appends the traffic of a scan: its inputs and output, and the states between its chunks. The
// backward pass reads them once more with the output's gradient, and writes the gradients. Inputs
// are kept; the states are computed again.
void AppendScanTraffic(double input, double output, double states, LayerProgram& program) {
  const double bytes = 2 * (input + output) + kStateBytes * states;
  Kernel traffic = MemoryBound("scan traffic", bytes, 2 * bytes);
  traffic.launches = 4;
  traffic.backward_launches = 6;
  traffic.stored_bytes = RoundedBytes(2 * (input + output));
  traffic.modules = kCoreAttention;
  program.kernels.push_back(traffic);
}

void AppendSelectiveScan(const LayerContext& c, const StateSpaceSpec& s, double inner,
                         LayerProgram& program) {
  const double t = c.sharding.tensor_parallel;
  const double n = TokensPerRank(c);
  const double shared = s.dt_rank + 2.0 * s.state_size;
  program.kernels.push_back(
      Matmul("step sizes down", {.m = n, .n = shared, .k = inner / t}, 2 * n * shared, 0));
  program.kernels.push_back(Matmul("step sizes up", {.m = n, .n = inner / t, .k = 1.0 * s.dt_rank},
                                   2 * n * inner / t, 0));
  const double elements = n * inner / t;
  Kernel scan = MemoryBound("selective scan", kSelectiveScanBytes * elements,
                            2 * kSelectiveScanBytes * elements);
  scan.flops = Flops{9 * elements * s.state_size};
  scan.stored_bytes = RoundedBytes(4 * elements);
  scan.modules = kCoreAttention;
  program.kernels.push_back(scan);
}

}  // namespace

// The chunked forms of lightning attention (arXiv 2401.04658) and of the gated delta rule (arXiv
// 2412.06464, section 3.3), with c tokens a chunk, keys of k and values of v: the scores c c k,
// their product with the values c v c, the queries' with the state c v k, the state's update k v c.
// The delta rule also has the keys' scores c c k, the inverse of a triangle c c c, its products
// with keys and values c k c and c v c, and the correction by the state c v k.
void AppendLinearAttention(const LayerContext& c, LayerProgram& program) {
  const LinearAttentionSpec& l = *c.model.linear_attention;
  const double t = c.sharding.tensor_parallel;
  const double n = TokensPerRank(c);
  const double keys = static_cast<double>(l.key_head_count) * l.key_head_dim;
  const double values = static_cast<double>(l.value_head_count) * l.value_head_dim;
  ScanWidths widths = {.mixed = 2 * keys + values, .gates = values, .output = values};
  const bool is_low_rank = l.kind == LinearAttentionKind::kKimiDelta;
  if (l.kind == LinearAttentionKind::kGatedDelta) widths.gates += 2 * l.value_head_count;
  if (is_low_rank) widths.gates = l.value_head_count;
  AppendScanInput(c, widths, l.convolution_size, program);
  if (is_low_rank) {
    const double rank = l.key_head_dim + l.value_head_dim;
    const double h = c.model.hidden_size;
    program.kernels.push_back(Matmul("gates down", {.m = n, .n = rank, .k = h}, 2 * n * rank, 0));
    program.kernels.push_back(Matmul("gates up", {.m = n, .n = (keys + values) / t, .k = rank / 2},
                                     2 * n * (keys + values) / t, 0));
  }
  const double chunk = std::min<double>(kDeltaChunk, c.workload.sequence_length);
  const double k = l.key_head_dim;
  const double v = l.value_head_dim;
  const double count = n / chunk * l.value_head_count / t;
  AppendProduct(chunk, chunk, k, count, program);
  AppendProduct(chunk, v, chunk, count, program);
  AppendProduct(chunk, v, k, count, program);
  AppendProduct(k, v, chunk, count, program);
  if (l.kind != LinearAttentionKind::kLightning) {
    AppendProduct(chunk, chunk, k, count, program);
    AppendProduct(chunk, chunk, chunk, count, program);
    AppendProduct(chunk, k, chunk, count, program);
    AppendProduct(chunk, v, chunk, count, program);
    AppendProduct(chunk, v, k, count, program);
  }
  AppendScanTraffic(n * widths.mixed / t, n * values / t, count * k * v, program);
  AppendScanOutput(c, widths, program);
}

// The state-space duality of Mamba-2 (arXiv 2405.21060, section 6), with c tokens a chunk, states
// of s and heads of p channels: the scores c c s of each group, their product with the inputs c p
// c, the chunk's state s p c and the output of the state before it c p s, of each head.
void AppendStateSpace(const LayerContext& c, LayerProgram& program) {
  const StateSpaceSpec& s = *c.model.state_space;
  const double t = c.sharding.tensor_parallel;
  const double n = TokensPerRank(c);
  const double inner = static_cast<double>(s.head_count) * s.head_dim;
  const double shared = s.dt_rank > 0 ? 0 : 2.0 * s.group_count * s.state_size;
  const double steps = s.dt_rank > 0 ? 0 : s.head_count;
  const ScanWidths widths = {.mixed = inner + shared, .gates = inner + steps, .output = inner};
  AppendScanInput(c, widths, s.convolution_size, program);
  if (s.dt_rank > 0) {
    AppendSelectiveScan(c, s, inner, program);
  } else {
    const double chunk = std::min<double>(kStateSpaceChunk, c.workload.sequence_length);
    const double chunks = n / chunk;
    const double count = chunks * s.head_count / t;
    const double state = s.state_size;
    const double channels = s.head_dim;
    AppendProduct(chunk, chunk, state, chunks * std::max(1.0, s.group_count / t), program);
    AppendProduct(chunk, channels, chunk, count, program);
    AppendProduct(state, channels, chunk, count, program);
    AppendProduct(chunk, channels, state, count, program);
    AppendScanTraffic(n * widths.mixed / t, n * inner / t, count * state * channels, program);
  }
  AppendScanOutput(c, widths, program);
}

}  // namespace meshwright
