#include "cli/reports/mix_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "cli/reports/words.h"
#include "cli/reports/wrap.h"
#include "search_space/base/count_text.h"

namespace meshwright {
namespace {

std::string Line(std::string_view name, const std::string& text, int columns) {
  return Wrapped(text, columns, fmt::format("{:<9}", name), "         ");
}

std::string TokensText(double tokens) { return CountText(std::llround(tokens)); }

// Returns the best pool alone: "ix, 35,532".
std::string BestPool(const v1::Heterogeneous& mix) {
  for (const v1::PoolSetPlan& best : mix.best_by_pool_set()) {
    if (best.pools_size() == 1) {
      return fmt::format("{}, {}", best.pools(0), TokensText(best.tokens_per_second()));
    }
  }
  return "";
}

std::string ProofWords(const v1::Search& search) {
  return search.complete() && search.optimality_gap_ratio() == 0
             ? "proven best (gap 0)"
             : fmt::format("not proven: a plan may be {} faster",
                           PercentText(search.optimality_gap_ratio()));
}

std::string MixWords(const v1::TuneResult& result) {
  const v1::Heterogeneous& mix = result.heterogeneous();
  double tokens = 0;
  for (const v1::MixGeneration& generation : mix.generations()) {
    tokens = std::max(tokens, generation.tokens_per_second());
  }
  if (mix.tokens_per_second_by_pool().empty()) {
    return fmt::format("{} tokens/s; no pool holds the job alone; {}", TokensText(tokens),
                       ProofWords(result.search()));
  }
  return fmt::format("{} tokens/s: {:.2f} x the better pool alone ({}), {:.0f}% of all alone; {}",
                     TokensText(tokens), mix.gain_ratio(), BestPool(mix),
                     100 * mix.efficiency_ratio(), ProofWords(result.search()));
}

}  // namespace

std::string MixLines(const v1::TuneResult& result, int columns) {
  if (!result.has_heterogeneous()) return "";
  const v1::Heterogeneous& mix = result.heterogeneous();
  if (mix.mix_verdict() != "mix") return Line("do not", "mix: " + mix.reason(), columns);
  return Line("mix", MixWords(result), columns) + Line("why", mix.reason(), columns);
}

}  // namespace meshwright
