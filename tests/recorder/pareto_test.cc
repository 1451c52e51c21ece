#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"
#include "tests/recorder/temporary_store.h"
#include "tests/stores/test_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

class ParetoTest : public testing::TestWithParam<StorePlace> {
 protected:
  ParetoTest() {
    EXPECT_TRUE(store_.InsertStudy(MakeStudy("a")).ok());
    EXPECT_TRUE(store_.InsertStudy(MakeStudy("b")).ok());
  }

  // Adds a trial that took so long and so much memory, as far as it was measured.
  int Add(std::optional<double> seconds, std::optional<int> gib, const std::string& study = "a") {
    TrialIntent intent = MakeIntent(study, fmt::format("d{}", ++count_));
    if (count_ % 2 == 0) intent.purpose = TrialPurpose::kConfirm;
    const auto begun = store_.BeginTrial(intent);
    EXPECT_TRUE(begun.ok()) << begun.status();
    TrialEnding ending = {.study_id = study,
                          .trial_number = begun->trial.number,
                          .attempt = {.attempt_id = begun->attempt.id,
                                      .fencing_token = begun->attempt.fencing_token,
                                      .outcome = seconds.has_value() ? Outcome::kOk : Outcome::kOom,
                                      .time_ms = 3000}};
    if (seconds.has_value()) ending.step_time = Seconds(*seconds);
    if (gib.has_value()) ending.peak_memory = GiB(*gib);
    const auto ended = store_.FinishTrial(ending);
    EXPECT_TRUE(ended.ok()) << ended.status();
    return begun->trial.number;
  }

  // Returns the numbers of the front, page by page.
  std::vector<int> Front(int page_size, const std::string& study = "a") {
    std::vector<int> numbers;
    std::string token;
    do {
      const auto page = store_.ListParetoTrials(study, page_size, token);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) return numbers;
      EXPECT_LE(page->trials.size(), static_cast<std::size_t>(page_size));
      for (const TrialRecord& trial : page->trials) numbers.push_back(trial.number);
      token = page->next_page_token;
    } while (!token.empty());
    return numbers;
  }

  TestStore place_{GetParam()};
  Recorder store_ = Recorder::Open({.path = place_.address()}).value();
  int count_ = 0;
};

TEST_P(ParetoTest, NoOtherTrialIsFasterAndSmaller) {
  EXPECT_THAT(Front(10), IsEmpty());
  const int slow_small = Add(3.0, 10);
  const int fast_large = Add(1.0, 40);
  Add(3.0, 20);  // as slow as the first, and larger
  Add(2.0, 40);  // as large as the second, and slower
  Add(4.0, 50);  // beaten by all
  const int between = Add(2.0, 30);
  Add({}, {});                         // ran out of memory
  Add(0.5, {});                        // its memory was not measured
  const int equal = Add(2.0, 30);      // as good as one before it
  const int other = Add(9.0, 1, "b");  // of another study
  for (const int page_size : {1, 2, 3, 10}) {
    EXPECT_THAT(Front(page_size), ElementsAre(fast_large, between, equal, slow_small)) << page_size;
    EXPECT_THAT(Front(page_size, "b"), ElementsAre(other));
  }
}

TEST_P(ParetoTest, ATokenBelongsToItsStudy) {
  Add(1.0, 2);
  Add(2.0, 1);
  const auto page = store_.ListParetoTrials("a", 1, "");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(Reason(store_.ListParetoTrials("b", 1, page->next_page_token).status()),
            "INVALID_PAGE_TOKEN");
  EXPECT_EQ(Reason(store_.ListParetoTrials("none", 1, "").status()), "UNKNOWN_STUDY");
  EXPECT_TRUE(absl::IsInvalidArgument(store_.ListParetoTrials("a", -1, "").status()));
}

TEST_P(ParetoTest, TrialsAreFoundByTheirPurposeAndPlan) {
  for (int i = 0; i < 5; ++i) Add(1.0 + i, 10);
  const auto numbers = [&](const TrialFilter& filter, TrialOrder order) {
    std::vector<int> found;
    std::string token;
    do {
      const auto page = store_.ListTrials(filter, order, 1, token);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) return found;
      for (const TrialRecord& trial : page->trials) found.push_back(trial.number);
      token = page->next_page_token;
    } while (!token.empty());
    return found;
  };
  for (const TrialOrder order : {TrialOrder::kNumber, TrialOrder::kFastest}) {
    EXPECT_THAT(numbers({.study_id = "a", .purpose = TrialPurpose::kConfirm}, order),
                ElementsAre(2, 4));
    EXPECT_THAT(numbers({.study_id = "a", .plan_digest = "d3"}, order), ElementsAre(3));
    EXPECT_THAT(numbers({.study_id = "a",
                         .outcome = Outcome::kOk,
                         .purpose = TrialPurpose::kSearch,
                         .plan_digest = "d2"},
                        order),
                IsEmpty());
  }
  // A token belongs to its filter.
  const auto page = store_.ListTrials({.study_id = "a", .purpose = TrialPurpose::kSearch},
                                      TrialOrder::kNumber, 1, "");
  ASSERT_TRUE(page.ok()) << page.status();
  const auto other =
      store_.ListTrials({.study_id = "a"}, TrialOrder::kNumber, 1, page->next_page_token);
  EXPECT_EQ(Reason(other.status()), "INVALID_PAGE_TOKEN");
}

TEST_P(ParetoTest, OneTrialAndOnePlan) {
  Add(1.5, 20);
  EXPECT_EQ(store_.GetTrial("a", 1)->step_time, Seconds(1.5));
  EXPECT_EQ(Reason(store_.GetTrial("a", 2).status()), "UNKNOWN_TRIAL");
  EXPECT_EQ(Reason(store_.GetTrial("none", 1).status()), "UNKNOWN_STUDY");
  EXPECT_EQ(*store_.FindPlan("a", 1), std::nullopt);
  EXPECT_EQ(Reason(store_.FindPlan("none", 1).status()), "UNKNOWN_STUDY");
}

INSTANTIATE_TEST_SUITE_P(All, ParetoTest, testing::ValuesIn(AllPlaces()),
                         [](const auto& tested) { return NameOf(tested.param); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
