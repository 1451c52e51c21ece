#include "server/tuner/search/infeasible.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/workload.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/question_search.h"
#include "tests/search_space/models.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// A question that no plan fits, and whose states or activations need the most memory.
StudyRequest Gpt3OnOneNode() {
  return {.question = {.model = Gpt3_175b(),
                       .workload = {.sequence_length = 2048, .global_batch_size = 8},
                       .cluster = {.name = "c", .pools = {Nodes(1, 8)}}}};
}

Infeasible Explained(const StudyRequest& request) {
  const auto answer = RunStudy(request, Known(), {});
  EXPECT_TRUE(answer.ok()) << answer.status();
  if (!answer.ok() || !std::holds_alternative<Infeasible>(*answer)) {
    ADD_FAILURE() << "something fits";
    return {};
  }
  return std::get<Infeasible>(*answer);
}

bool IsFeasible(const StudyRequest& request) {
  const auto answer = RunStudy(request, Known(), {});
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() && std::holds_alternative<StudyResult>(*answer);
}

// Applies the change that the sentence describes. Returns true if the sentence was understood.
bool Apply(const std::string& suggestion, StudyRequest& request) {
  NodePoolRequest& pool = request.question.cluster.pools.front();
  WorkloadRequest& workload = request.question.workload;
  double gib = 0;
  int count = 0;
  if (std::sscanf(suggestion.c_str(), "use devices with at least %lf GiB", &gib) == 1) {
    pool.memory_capacity = GiB(gib);
  } else if (std::sscanf(suggestion.c_str(), "use %d nodes instead of", &count) == 1) {
    pool.node_count = count;
  } else if (std::sscanf(suggestion.c_str(), "train with sequences of %d tokens", &count) == 1) {
    workload.sequence_length = count;
  } else if (suggestion == "accumulate gradients in bf16 instead of fp32") {
    workload.gradient_dtype = GradientDtype::kBf16;
  } else if (suggestion == "use adam8bit instead of adam") {
    workload.optimizer = Optimizer::kAdam8bit;
  } else if (suggestion == "use adam8bit and bf16 gradients") {
    workload.gradient_dtype = GradientDtype::kBf16;
    workload.optimizer = Optimizer::kAdam8bit;
  } else {
    return false;
  }
  return true;
}

void ExpectSuggestionsHelp(const StudyRequest& request) {
  const Infeasible answer = Explained(request);
  ASSERT_FALSE(answer.suggestions.empty());
  for (const std::string& suggestion : answer.suggestions) {
    StudyRequest changed = request;
    ASSERT_TRUE(Apply(suggestion, changed)) << suggestion;
    EXPECT_TRUE(IsFeasible(changed)) << suggestion;
  }
}

// 175e9 parameters with 2 + 4 + 12 bytes are 3.1 TB; eight devices have 0.7 TB. Fully sharded, the
// optimizer's 12 of the 18 bytes are most of it.
TEST(InfeasibleTest, NamesWhatBinds) {
  const Infeasible answer = Explained(Gpt3OnOneNode());
  EXPECT_EQ(answer.binding_kind, MemoryKind::kOptimizerStates);
  ASSERT_TRUE(answer.nearest.has_value());
  const Estimate& nearest = answer.nearest->estimate;
  EXPECT_FALSE(nearest.fits);
  EXPECT_EQ(answer.missing, nearest.reserved_memory - nearest.memory_capacity);
  EXPECT_GT(answer.missing, GiB(250));  // 18 bytes x 175e9 / 8 = 367 GiB against 80 GiB
  EXPECT_TRUE(answer.search.complete);
}

TEST(InfeasibleTest, EverySuggestionHelps) { ExpectSuggestionsHelp(Gpt3OnOneNode()); }

// The memory is a little below the need, so that each single change is enough. The needs differ by
// less than the digits that a sentence shows.
TEST(InfeasibleTest, SuggestionsHelpWhereLittleIsMissing) {
  StudyRequest request = {.question = TinyQuestion()};
  request.question.workload.sequence_length = 4096;
  request.question.cluster.pools.front().memory_capacity = GiB(1);
  const Bytes need = Explained(request).nearest->estimate.reserved_memory;
  for (const double part : {0.999, 0.97, 0.9}) {
    request.question.cluster.pools.front().memory_capacity = Scale(need, part);
    ExpectSuggestionsHelp(request);
  }
}

// The sentence shows tenths of a GiB. Rounding to the nearest one would be too little half of the
// time.
TEST(InfeasibleTest, SuggestedMemoryIsNeverTooLittle) {
  for (const int layers : {1, 2, 3, 4, 5, 6}) {
    StudyRequest request = {.question = TinyQuestion()};
    request.question.model.layer_count = layers;
    request.question.cluster.pools.front().memory_capacity = GiB(1);
    const std::string suggestion = Explained(request).suggestions.front();
    ASSERT_TRUE(Apply(suggestion, request));
    EXPECT_TRUE(IsFeasible(request)) << suggestion;
  }
}

TEST(InfeasibleTest, NearestNeedsLeastMemoryOfAll) {
  StudyRequest request = {.question = TinyQuestion()};
  request.question.cluster.pools.front().memory_capacity = GiB(1);
  const Bytes need = Explained(request).nearest->estimate.reserved_memory;
  request.question.cluster.pools.front().memory_capacity = need - Bytes{1};
  EXPECT_FALSE(IsFeasible(request));
  request.question.cluster.pools.front().memory_capacity = need;
  EXPECT_TRUE(IsFeasible(request));
}

// A change is tried by a search that ends at its first fit. A plan without memory for its states is
// of no use to it, so the search cuts all of them by their sizes.
TEST(InfeasibleTest, SearchesForAnyFitLookForNoNearestPlan) {
  const auto study = ResolveStudy(Gpt3OnOneNode(), Known());
  ASSERT_TRUE(study.ok()) << study.status();
  const SearchFound any = BestPlansOf(study->problem, {}, {.first_fit_is_enough = true});
  EXPECT_TRUE(any.best.empty());
  EXPECT_FALSE(any.nearest.has_value());
  EXPECT_TRUE(any.summary.complete);
  EXPECT_TRUE(BestPlansOf(study->problem, {}, {}).nearest.has_value());
}

// Three devices for one sequence and one layer with 16 heads: nothing divides.
TEST(InfeasibleTest, NoLegalPlanAtAll) {
  StudyRequest request = {.question = TinyQuestion()};
  request.question.model.layer_count = 1;
  request.question.workload.global_batch_size = 1;
  request.question.cluster.pools = {Nodes(1, 3)};
  const Infeasible answer = Explained(request);
  EXPECT_FALSE(answer.nearest.has_value());
  ASSERT_FALSE(answer.suggestions.empty());
  EXPECT_THAT(answer.suggestions,
              testing::Contains(testing::HasSubstr(
                  "plans are left out: tensor_parallel does not divide the attention heads (rule "
                  "divisibility)")));
  EXPECT_THAT(answer.suggestions.back(), testing::HasSubstr("switch a rule off"));
}

// torchtitan refuses to put a key-value head on several ranks, and 4 ranks for 2 heads do that.
TEST(InfeasibleTest, TheRuleOfAFrameworkIsNamedWithItsSource) {
  StudyRequest request = {.question = TinyQuestion()};
  request.question.model.kv_head_count = 2;
  request.question.workload.framework_name = "torchtitan";
  request.question.workload.framework_version = "0.2";
  request.question.cluster.pools = {Nodes(1, 8)};
  request.dimensions = {{.name = "tensor_parallel", .values = {"4"}}};
  const Infeasible answer = Explained(request);
  EXPECT_FALSE(answer.nearest.has_value());
  ASSERT_GE(answer.suggestions.size(), 2U);
  EXPECT_THAT(answer.suggestions.front(),
              testing::MatchesRegex("[0-9]+ of [0-9]+ plans are left out: torchtitan 0\\.2 refuses "
                                    "tensor_parallel: .*key-value heads.* \\(.*torchtitan.*\\)"));
  // Every plan of the space counts for one rule.
  std::int64_t left_out = 0;
  std::int64_t all = 0;
  for (const std::string& sentence : answer.suggestions) {
    long long plans = 0;
    long long of = 0;
    if (std::sscanf(sentence.c_str(), "%lld of %lld plans", &plans, &of) != 2) continue;
    left_out += plans;
    all = of;
  }
  EXPECT_EQ(left_out, all);
  EXPECT_EQ(all, answer.search.space_count);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
