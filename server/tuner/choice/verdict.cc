#include "server/tuner/choice/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {
namespace {

// Ratios below this are shown as equal speed.
constexpr double kShownRatio = 0.0005;

std::string PercentOf(double ratio) { return fmt::format("{:.1f} %", 100 * ratio); }

std::string FitsWith(const VerdictFact& fact) {
  return "a probability of " + ProbabilityOf(fact.fit_probability.value_or(0));
}

std::string SlowerBy(const VerdictFact& fact) {
  const double ratio = fact.slower_ratio.value_or(0);
  return ratio < kShownRatio ? "as fast" : PercentOf(ratio) + " slower";
}

std::string Unconfirmed(std::string_view plan, const VerdictFact& fact) {
  return fmt::format("{} uses {}. Hardly any measured run confirms the estimates of such plans",
                     plan, fmt::join(fact.features, " and "));
}

std::string OwnTied(const VerdictFact& fact) {
  return fmt::format(
      "Your plan cannot be told apart from the one that would be recommended without it. By the "
      "model that one is {} faster, but it is the faster one with a probability of only {}",
      PercentOf(fact.slower_ratio.value_or(0)), ProbabilityOf(fact.faster_probability.value_or(0)));
}

// Returns a statement about the user's own plan, with its risk if that is known.
std::string WithOwnRisk(const std::string& statement, const VerdictFact& fact) {
  if (!fact.fit_probability.has_value()) return statement;
  return statement + ". Your plan fits with " + FitsWith(fact);
}

std::string Slower(const VerdictFact& fact) {
  const double ratio = fact.slower_ratio.value_or(0);
  const std::string time =
      ratio < kShownRatio ? "is as fast as" : "is " + PercentOf(ratio) + " slower than";
  return fmt::format("Plan 1 {} the shortest estimate and fits with {}", time, FitsWith(fact));
}

std::string KeepsSettings(const VerdictFact& fact) {
  const double ratio = fact.slower_ratio.value_or(0);
  const std::string others =
      ratio / (1 + ratio) < kShownRatio
          ? fmt::format("With {} the best plan is as fast by the model", fact.settings)
          : fmt::format("With {} a step takes {} less by the model, which cannot be told apart",
                        fact.settings, PercentOf(ratio / (1 + ratio)));
  return others + "; plan 1 keeps more of the framework's own settings";
}

// A reason to win a tie, in the words that follow a semicolon.
struct TieRow {
  ChoiceReason reason;
  VerdictCode code;
  std::string_view words;
};

constexpr std::array kTies = {
    TieRow{ChoiceReason::kSurerToFit, VerdictCode::kSurerToFit, "it is surer to fit"},
    TieRow{ChoiceReason::kBetterFounded, VerdictCode::kBetterFounded,
           "its estimate is better founded"},
    TieRow{ChoiceReason::kPlainer, VerdictCode::kPlainer,
           "it has fewer features that hardly any measured run has confirmed"},
    TieRow{ChoiceReason::kUsualSettings, VerdictCode::kUsualSettings,
           "it needs no other settings of the framework than its own"},
    TieRow{ChoiceReason::kNearerToOwn, VerdictCode::kNearerToOwn, "it is nearer to your own plan"},
    TieRow{ChoiceReason::kPublished, VerdictCode::kPublishedRecipe,
           "it is the framework's published recipe (see the baseline)"},
    TieRow{ChoiceReason::kMoreUsual, VerdictCode::kMoreUsual,
           "it is the most usual of equally fast plans"},
};

// Returns the words of a tie, or "" for other statements.
std::string_view TieWords(VerdictCode code) {
  const auto* const row = std::ranges::find(kTies, code, &TieRow::code);
  return row == kTies.end() ? "" : row->words;
}

std::string TieClause(const VerdictFact& fact) {
  const std::string_view words = TieWords(fact.code);
  if (!fact.tied_count.has_value()) return std::string(words);
  return fmt::format("among {} plans that cannot be told apart, {}", *fact.tied_count, words);
}

// Returns a sentence without its full stop.
std::string Sentence(const VerdictFact& fact, const ChoiceLimits& limits) {
  switch (fact.code) {
    case VerdictCode::kNoneSureToFit:
      return fmt::format(
          "No plan was found that fits with a probability of {:.0f} % or more. The plan to launch "
          "has the least expected cost, and fits with a probability of {}",
          100 * limits.min_fit_probability, ProbabilityOf(fact.fit_probability.value_or(0)));
    case VerdictCode::kModelOptimum:
      return "It is the fastest plan by the model, and fits with " + FitsWith(fact);
    case VerdictCode::kOptimumMayNotFit:
      return fmt::format("The fastest plan by the model fits with a probability of only {}",
                         ProbabilityOf(fact.fit_probability.value_or(0)));
    case VerdictCode::kOptimumUnconfirmed:
      return Unconfirmed("The fastest plan by the model", fact);
    case VerdictCode::kSafestUnconfirmed:
      return Unconfirmed("The fastest plan that is safe in memory", fact);
    case VerdictCode::kTiedWithOptimum:
      return fmt::format(
          "It cannot be told apart from the fastest plan by the model ({}), and fits with {}",
          SlowerBy(fact), FitsWith(fact));
    case VerdictCode::kSlower:
      return Slower(fact);
    case VerdictCode::kPlanUnconfirmed:
      return Unconfirmed("The plan to launch", fact);
    case VerdictCode::kOwnRecommended:
      return WithOwnRisk("Your plan is the one that would be recommended", fact);
    case VerdictCode::kOwnNotSlower:
      return WithOwnRisk(
          "Your plan cannot be told apart from the one that would be recommended without it, and "
          "is "
          "not slower by the model",
          fact);
    case VerdictCode::kOwnTied:
      return WithOwnRisk(OwnTied(fact), fact);
    case VerdictCode::kKeepsFrameworkSettings:
      return KeepsSettings(fact);
    case VerdictCode::kSwitchesPay:
      return fmt::format("Plan 1 sets {}, without which it would be {} slower by the model",
                         fact.settings, PercentOf(fact.slower_ratio.value_or(0)));
    case VerdictCode::kSurerToFit:
    case VerdictCode::kBetterFounded:
    case VerdictCode::kPlainer:
    case VerdictCode::kUsualSettings:
    case VerdictCode::kNearerToOwn:
    case VerdictCode::kPublishedRecipe:
    case VerdictCode::kMoreUsual:
    case VerdictCode::kAmongSettings:
      break;  // are no sentences of their own
  }
  std::abort();
}

}  // namespace

std::string ProbabilityOf(double probability) {
  return probability > 0.99 ? "over 99 %" : fmt::format("{:.0f} %", 100 * probability);
}

std::vector<VerdictFact> TieFacts(ChoiceReason reason, std::optional<int> tied_count) {
  const auto* const row = std::ranges::find(kTies, reason, &TieRow::reason);
  if (row == kTies.end()) return {};
  return {{.code = row->code, .tied_count = tied_count}};
}

std::string VerdictText(const std::vector<VerdictFact>& facts, const ChoiceLimits& limits) {
  std::string text;
  std::string_view between;  // ends what is written so far
  for (const VerdictFact& fact : facts) {
    if (fact.code == VerdictCode::kAmongSettings) {
      text += fmt::format("{}Among plans with {}: ", between, fact.settings);
      between = "";
    } else if (!TieWords(fact.code).empty()) {
      text += "; " + TieClause(fact);
      between = ". ";
    } else {
      text.append(between).append(Sentence(fact, limits));
      between = ". ";
    }
  }
  return facts.empty() ? text : text + ".";
}

}  // namespace meshwright
