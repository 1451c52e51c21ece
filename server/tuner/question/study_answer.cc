#include "server/tuner/question/study_answer.h"

#include <cstdlib>
#include <string_view>

namespace meshwright {

std::string_view Word(VerdictCode code) {
  switch (code) {
    case VerdictCode::kNoneSureToFit:
      return "no_plan_sure_to_fit";
    case VerdictCode::kModelOptimum:
      return "model_optimum";
    case VerdictCode::kOptimumMayNotFit:
      return "model_optimum_may_not_fit";
    case VerdictCode::kOptimumUnconfirmed:
      return "model_optimum_unconfirmed";
    case VerdictCode::kSafestUnconfirmed:
      return "fastest_safe_plan_unconfirmed";
    case VerdictCode::kTiedWithOptimum:
      return "tied_with_model_optimum";
    case VerdictCode::kSlower:
      return "slower";
    case VerdictCode::kPlanUnconfirmed:
      return "plan_unconfirmed";
    case VerdictCode::kSurerToFit:
      return "surer_to_fit";
    case VerdictCode::kBetterFounded:
      return "better_founded";
    case VerdictCode::kPlainer:
      return "plainer";
    case VerdictCode::kUsualSettings:
      return "usual_settings";
    case VerdictCode::kNearerToOwn:
      return "nearer_to_own_plan";
    case VerdictCode::kPublishedRecipe:
      return "published_recipe";
    case VerdictCode::kMoreUsual:
      return "more_usual";
    case VerdictCode::kOwnRecommended:
      return "own_plan_recommended";
    case VerdictCode::kOwnNotSlower:
      return "own_plan_not_slower";
    case VerdictCode::kOwnTied:
      return "own_plan_tied";
    case VerdictCode::kAmongSettings:
      return "among_settings";
    case VerdictCode::kKeepsFrameworkSettings:
      return "keeps_framework_settings";
    case VerdictCode::kSwitchesPay:
      return "switches_pay";
  }
  std::abort();
}

}  // namespace meshwright
