#include "server/tuner/search/mixed/shape_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "absl/container/inlined_vector.h"

namespace meshwright {
namespace {

constexpr std::size_t kFewKinds = 12;
constexpr double kSlack = 1e-9;  // for sums that round

Seconds Beside(const AlikeStages& alike) { return alike.embedding + alike.message; }

// Returns the most layers of a stage that takes at most `work` for a micro-batch.
int MostLayers(const AlikeStages& alike, Seconds work) {
  const double most = (work - Beside(alike)) / alike.layer + kSlack;
  return most < std::numeric_limits<int>::max() ? static_cast<int>(std::max(0.0, most))
                                                : std::numeric_limits<int>::max();
}

// Returns the least time of the slowest stage, if layers are whole. Begins with the time at which
// divided layers would be enough, and lets the stage that is the next to hold one more have it.
Seconds LeastSlowest(const ShapeCosts& shape) {
  double rate = 0;
  double layers = shape.layers;
  Seconds slowest(0);
  for (const AlikeStages& alike : shape.stages) {
    rate += alike.count / alike.layer.count();
    layers += alike.count * (Beside(alike) / alike.layer);
    slowest = std::max(slowest, Beside(alike) + alike.layer);
  }
  slowest = std::max(slowest, Seconds(layers / rate) * (1 - kSlack));
  absl::InlinedVector<int, kFewKinds> held;
  double sum = 0;
  for (const AlikeStages& alike : shape.stages) {
    held.push_back(std::max(1, MostLayers(alike, slowest)));
    sum += static_cast<double>(alike.count) * held.back();
  }
  while (sum < shape.layers) {
    std::size_t next = 0;
    Seconds at(std::numeric_limits<double>::infinity());
    for (std::size_t i = 0; i < held.size(); ++i) {
      const AlikeStages& alike = shape.stages[i];
      const Seconds own = Beside(alike) + (held[i] + 1) * alike.layer;
      if (own >= at) continue;
      at = own;
      next = i;
    }
    ++held[next];
    sum += shape.stages[next].count;
    slowest = std::max(slowest, at * (1 - kSlack));
  }
  return slowest;
}

// Returns the least sum of all stages' work: each has one layer, and the others are on the stages
// that are fastest for a layer, as many as these hold in `most`. Returns nullopt if they cannot
// hold all.
std::optional<Seconds> LeastSum(const ShapeCosts& shape, std::span<const std::size_t> fastest,
                                Seconds most) {
  Seconds sum = shape.hops;
  double left = shape.layers;
  for (const AlikeStages& alike : shape.stages) {
    sum += alike.count * (Beside(alike) + alike.layer);
    left -= alike.count;
  }
  if (left < 0) return std::nullopt;
  for (const std::size_t i : fastest) {
    const AlikeStages& alike = shape.stages[i];
    const int held = MostLayers(alike, most);
    if (held < 1) return std::nullopt;
    const double taken = std::min(left, static_cast<double>(alike.count) * (held - 1));
    sum += taken * alike.layer;
    left -= taken;
  }
  if (left > 0) return std::nullopt;
  return sum;
}

// Returns a lower bound of the pipeline if one of these stages is the slowest and takes `work`. The
// other stages run before its first or after its last micro-batch, but for its own warm-up, in
// which it has a forward pass for each stage behind it (Least1f1bTime). The stages before it are no
// slower than it, so that the others have to be behind it: they cannot hide in its warm-up unless
// they are much faster.
Seconds LeastIfSlowest(const AlikeStages& alike, Seconds work, Seconds sum, const ShapeCosts& shape,
                       int p) {
  const double m = shape.micro_batches;
  const double warm_up = std::min<double>(p, m) - 1;
  const Seconds forward = alike.forward * (work - alike.message) + alike.sent;
  Seconds least = std::max(m * work, (m - 1) * work + sum - warm_up * forward);
  if (m > p) least = std::max(least, (m - 1 - p) * work + 2 * sum - shape.hops);
  return least;
}

}  // namespace

std::optional<Seconds> LeastOfShape(const ShapeCosts& shape, Seconds useful) {
  const double m = shape.micro_batches;
  const Seconds slowest = LeastSlowest(shape);
  if (m * slowest >= useful) return std::nullopt;
  int p = 0;
  double most_forward = 0;
  Seconds most_sent(0);
  absl::InlinedVector<std::size_t, kFewKinds> fastest(shape.stages.size());
  std::iota(fastest.begin(), fastest.end(), std::size_t{0});
  std::ranges::sort(fastest, {}, [&](std::size_t i) { return shape.stages[i].layer; });
  for (const AlikeStages& alike : shape.stages) {
    p += alike.count;
    most_forward = std::max(most_forward, alike.forward);
    most_sent = std::max(most_sent, alike.sent);
  }
  // The larger the sum, the less time is left for the slowest stage, and the larger the sum.
  std::optional<Seconds> sum = LeastSum(shape, fastest, useful / m);
  if (!sum.has_value()) return std::nullopt;
  const double warm_up = std::min<double>(p, m) - 1;
  const double own = m - 1 - warm_up * most_forward;
  if (own > 0) {
    const Seconds most = (useful - *sum + warm_up * most_sent) / own;
    sum = LeastSum(shape, fastest, std::min(useful / m, most));
    if (!sum.has_value()) return std::nullopt;
  }
  Seconds least(std::numeric_limits<double>::infinity());
  for (const AlikeStages& alike : shape.stages) {
    // It has a whole number of layers.
    const double divided = (slowest - Beside(alike)) / alike.layer;
    const int layers = std::max(1, static_cast<int>(std::ceil(divided - kSlack)));
    const Seconds work = std::max(slowest, Beside(alike) + layers * alike.layer);
    const Seconds pipeline = LeastIfSlowest(alike, work, *sum, shape, p);
    const Seconds tail = alike.prices == nullptr ? Seconds(0) : alike.prices->LeastTail(layers);
    least = std::min(least, pipeline + tail);
  }
  if (least >= useful) return std::nullopt;
  return least;
}

}  // namespace meshwright
