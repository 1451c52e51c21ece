#include "server/convert/case_answers.h"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "estimator/learning/uncertainty.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/tuner/choice/choice.h"

namespace meshwright {
namespace {

// The place of a case among those of its group.
struct GroupPlace {
  std::optional<int> rank = {};  // absent without a group or an estimate
  std::string warning = {};      // "" if all cases of the group do the same work
};

// Returns a warning if some of these answers are about different work, else "".
std::string MixedJobs(std::span<const CaseAnswer> answers, std::span<const std::size_t> members) {
  const CaseAnswer& first = answers[members.front()];
  for (const std::size_t i : members) {
    if (answers[i].job == first.job) continue;
    return fmt::format(
        "the cases of group {} do different work ({}; {}), so their ranks say little", first.group,
        first.job, answers[i].job);
  }
  return "";
}

std::vector<GroupPlace> PlacesOf(std::span<const CaseAnswer> answers) {
  std::map<std::string_view, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].group.empty() && answers[i].estimate.ok()) {
      groups[answers[i].group].push_back(i);
    }
  }
  std::vector<GroupPlace> places(answers.size());
  for (const auto& [name, members] : groups) {
    std::vector<Alternative> alternatives;
    for (const std::size_t i : members) {
      const CalibratedEstimate& own = *answers[i].estimate;
      alternatives.push_back(
          {answers[i].plan, own.estimate, own.uncertainty, answers[i].sequence_length});
    }
    const std::string warning = MixedJobs(answers, members);
    int rank = 0;
    for (const std::size_t chosen : RankChoices(alternatives, {}).order) {
      places[members[chosen]] = {.rank = ++rank, .warning = warning};
    }
  }
  return places;
}

// Finds the cases of pairs by their ids.
class CasesById {
 public:
  explicit CasesById(std::span<const CaseAnswer> answers) {
    for (const CaseAnswer& answer : answers) {
      if (!answer.id.has_value()) continue;
      const auto [found, is_new] = by_id_.emplace(*answer.id, &answer);
      if (!is_new) found->second = nullptr;  // several cases
    }
  }

  // Returns the case that a side of a pair names, or null after adding why there is none.
  const CaseAnswer* Find(std::string_view side, bool is_stated, const std::string& id,
                         std::vector<FieldViolation>& found) const {
    const auto add = [&](std::string description) {
      found.push_back({.field = std::string(side), .description = std::move(description)});
    };
    if (!is_stated) {
      add("missing; required");
      return nullptr;
    }
    const auto at = by_id_.find(id);
    if (at == by_id_.end()) {
      add(fmt::format("\"{}\"; no case has this id", id));
      return nullptr;
    }
    if (at->second == nullptr) {
      add(fmt::format("\"{}\"; several cases have this id", id));
      return nullptr;
    }
    if (!at->second->estimate.ok()) {
      add(fmt::format("\"{}\"; this case has no estimate: {}", id,
                      std::string(at->second->estimate.status().message())));
      return nullptr;
    }
    return at->second;
  }

 private:
  std::unordered_map<std::string_view, const CaseAnswer*> by_id_;
};

}  // namespace

std::vector<v1::EvaluateAnswer> CaseAnswersToWire(std::span<const CaseAnswer> answers) {
  const std::vector<GroupPlace> places = PlacesOf(answers);
  std::vector<v1::EvaluateAnswer> wire(answers.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const CaseAnswer& answer = answers[i];
    if (!answer.estimate.ok()) {
      v1::FailedCase& failed = *wire[i].mutable_failed();
      if (answer.id.has_value()) failed.set_id(*answer.id);
      *failed.mutable_error() = ToCaseError(answer.estimate.status());
      continue;
    }
    v1::Estimate& estimate = *wire[i].mutable_estimate();
    estimate = ToWire(*answer.estimate);
    if (answer.id.has_value()) estimate.set_id(*answer.id);
    if (places[i].rank.has_value()) estimate.set_choice_rank(*places[i].rank);
    if (!places[i].warning.empty()) estimate.add_warnings(places[i].warning);
  }
  return wire;
}

std::vector<v1::ComparedPair> ComparePairs(
    std::span<const CaseAnswer> answers,
    const google::protobuf::RepeatedPtrField<v1::CasePair>& pairs) {
  const CasesById cases(answers);
  std::vector<v1::ComparedPair> compared;
  for (const v1::CasePair& pair : pairs) {
    v1::ComparedPair& out = compared.emplace_back();
    out.set_a(pair.a());
    out.set_b(pair.b());
    std::vector<FieldViolation> found;
    const CaseAnswer* a = cases.Find("a", pair.has_a(), pair.a(), found);
    const CaseAnswer* b = cases.Find("b", pair.has_b(), pair.b(), found);
    if (a == nullptr || b == nullptr) {
      *out.mutable_error() = ToCaseError(InvalidFields(found));
      continue;
    }
    out.set_faster_probability_ratio(
        FasterProbability(a->estimate->estimate.step_time, a->estimate->uncertainty,
                          b->estimate->estimate.step_time, b->estimate->uncertainty));
    const RatioBounds ratio =
        StepTimeRatio(a->estimate->estimate.step_time, a->estimate->uncertainty,
                      b->estimate->estimate.step_time, b->estimate->uncertainty);
    out.set_step_time_ratio_low(ratio.low);
    out.set_step_time_ratio_high(ratio.high);
  }
  return compared;
}

}  // namespace meshwright
