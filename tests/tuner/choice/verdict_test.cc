#include "server/tuner/choice/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "server/tuner/choice/choice.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr ChoiceLimits kUsual;

TEST(VerdictTest, AWonTieContinuesItsSentence) {
  EXPECT_EQ(
      VerdictText({{.code = VerdictCode::kOptimumMayNotFit, .fit_probability = 0.42},
                   {.code = VerdictCode::kSlower, .slower_ratio = 0.031, .fit_probability = 1},
                   {.code = VerdictCode::kPlainer, .tied_count = 7}},
                  kUsual),
      "The fastest plan by the model fits with a probability of only 42 %. Plan 1 is 3.1 % slower "
      "than "
      "the shortest estimate and fits with a probability of over 99 %; among 7 plans "
      "that cannot be "
      "told apart, it has fewer features that hardly any measured run has confirmed.");
}

TEST(VerdictTest, OpenSettingsAreNamedFirstAndLast) {
  EXPECT_EQ(
      VerdictText(
          {{.code = VerdictCode::kAmongSettings, .settings = "bf16"},
           {.code = VerdictCode::kModelOptimum, .fit_probability = 0.97},
           {.code = VerdictCode::kKeepsFrameworkSettings, .settings = "fp8", .slower_ratio = 0.25}},
          kUsual),
      "Among plans with bf16: It is the fastest plan by the model, and fits with a probability "
      "of 97 %. With fp8 a step takes 20.0 % less by the model, which cannot be told apart; "
      "plan 1 keeps more of the framework's own settings.");
}

TEST(VerdictTest, FeaturesAndOwnPlan) {
  EXPECT_EQ(
      VerdictText({{.code = VerdictCode::kSafestUnconfirmed, .features = {"a", "b"}},
                   {.code = VerdictCode::kOwnTied,
                    .slower_ratio = 0.02,
                    .fit_probability = 0.97,
                    .faster_probability = 0.61}},
                  kUsual),
      "The fastest plan that is safe in memory uses a and b. Hardly any measured run confirms the "
      "estimates of such plans. Your plan cannot be told apart from the one that would be "
      "recommended without it. By the model that one is 2.0 % faster, but it is the faster one "
      "with a probability of only 61 %. Your plan fits with a probability of 97 %.");
}

TEST(VerdictTest, AnUnconfirmedPlanIsARisk) {
  EXPECT_EQ(VerdictText({{.code = VerdictCode::kModelOptimum, .fit_probability = 0.97},
                         {.code = VerdictCode::kPlanUnconfirmed, .features = {"a"}}},
                        kUsual),
            "It is the fastest plan by the model, and fits with a probability of 97 %. The plan to "
            "launch uses a. Hardly any measured run confirms the estimates of such plans.");
}

TEST(VerdictTest, TheCheapestWinsNoTie) {
  EXPECT_THAT(TieFacts(ChoiceReason::kCheapest, 3), IsEmpty());
  EXPECT_THAT(TieFacts(ChoiceReason::kPublished, 3),
              ElementsAre(VerdictFact{.code = VerdictCode::kPublishedRecipe, .tied_count = 3}));
}

// Programs tell the statements apart by their codes.
TEST(VerdictTest, EachCodeHasAWordOfItsOwn) {
  std::set<std::string_view> words;
  for (int code = 0; code <= static_cast<int>(VerdictCode::kSwitchesPay); ++code) {
    words.insert(Word(static_cast<VerdictCode>(code)));
  }
  EXPECT_EQ(words.size(), 21U);
  EXPECT_FALSE(words.contains(""));
  EXPECT_EQ(Word(VerdictCode::kKeepsFrameworkSettings), "keeps_framework_settings");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
