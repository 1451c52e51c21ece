#include "server/engine/answer_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "recorder/recorder.h"
#include "search_space/base/status.h"
#include "search_space/digest/sha256.h"
#include "search_space/spec/cluster.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

// About what the list, the map and the allocator take for one answer beside its bytes.
constexpr std::size_t kEntryBytes = 256;

bool CanBeKept(const StudyRequest& request) {
  return !request.cost_model.has_value() && !request.trials.has_value();
}

// Statements of questions that are remembered, about 500 bytes each.
constexpr std::size_t kMaxStated = 10'000;

}  // namespace

AnswerMemory::AnswerMemory(StoreAccess store, StudyCodec codec, std::size_t max_bytes,
                           bool is_shared)
    : store_(std::move(store)),
      codec_(std::move(codec)),
      max_bytes_(max_bytes),
      is_shared_(is_shared) {}

std::int64_t AnswerMemory::CountPlans(const std::string& study_id) const {
  return ReadFrom(store_, [&](const Recorder& recorder) { return recorder.CountPlans(study_id); })
      .value_or(0);
}

bool AnswerMemory::IsWhole(const KeptAnswer& kept) {
  if (!is_shared_ || kept.study_id.empty()) return true;
  const auto count = ReadFrom(
      store_, [&](const Recorder& recorder) { return recorder.CountPlans(kept.study_id); });
  if (count.ok() && *count == kept.plan_count) return true;
  Forget(kept.study_id);
  return false;
}

AnswerMemory::Subject AnswerMemory::SubjectOf(const ResolvedStudy& asked) const {
  Sha256 digest;
  // Their number and lengths keep two lists apart whose texts together are the same.
  for (const std::string& warning : asked.request.warnings) {
    digest.Add(fmt::format("{}\n{}", warning.size(), warning));
  }
  digest.Add("\n");
  digest.Add(codec_.encode_request(asked.request));
  Subject subject = {.digest = digest.Hex(),
                     .framework = asked.problem.profile.name,
                     .history_sequence = asked.request.history_sequence};
  for (const NodePool& pool : asked.problem.cluster.pools) subject.chips.push_back(pool.chip.id);
  return subject;
}

absl::StatusOr<std::string> AnswerMemory::KeyOf(const Subject& subject,
                                                std::int64_t sequence) const {
  // The last sequence that can change the answer is that of a measurement on one of the chips, or
  // of any retraction.
  std::int64_t last = 0;
  if (sequence > 0) {
    RETURN_IF_ERROR(store_.read([&](const Recorder& recorder) -> absl::Status {
      for (const std::string& chip : subject.chips) {
        ASSIGN_OR_RETURN(const std::int64_t of_chip,
                         recorder.LastSequenceOf(chip, subject.framework, sequence));
        last = std::max(last, of_chip);
      }
      return absl::OkStatus();
    }));
  }
  return fmt::format("{} {}", subject.digest, last);
}

absl::StatusOr<std::optional<std::string>> AnswerMemory::KeyOf(const ResolvedStudy& asked,
                                                               std::int64_t sequence) const {
  if (!CanBeKept(asked.request)) return std::nullopt;
  return KeyOf(SubjectOf(asked), sequence);
}

absl::StatusOr<std::optional<std::string>> AnswerMemory::KeyOfStated(const std::string& stated) {
  const std::string digest = Sha256Hex(stated);
  std::shared_ptr<const Subject> subject;
  {
    const std::lock_guard lock(mutex_);
    const auto found = stated_.find(digest);
    if (found == stated_.end()) return std::nullopt;
    subject = found->second;
  }
  return KeyOf(*subject,
               subject->history_sequence.value_or(std::numeric_limits<std::int64_t>::max()));
}

void AnswerMemory::Learn(const std::string& stated, const ResolvedStudy& asked) {
  if (!CanBeKept(asked.request)) return;
  auto subject = std::make_shared<const Subject>(SubjectOf(asked));
  const std::string digest = Sha256Hex(stated);
  const std::lock_guard lock(mutex_);
  // All are learnt again as they are asked.
  if (stated_.size() >= kMaxStated) stated_.clear();
  stated_.insert_or_assign(digest, std::move(subject));
}

std::shared_ptr<const KeptAnswer> AnswerMemory::Find(const std::string& key, bool needs_study) {
  std::shared_ptr<const KeptAnswer> kept;
  {
    const std::lock_guard lock(mutex_);
    kept = FindKept(key);
  }
  if (kept == nullptr || (needs_study && kept->study_id.empty())) return nullptr;
  return IsWhole(*kept) ? kept : nullptr;
}

std::shared_ptr<const KeptAnswer> AnswerMemory::KeepRecorded(
    const std::string& key, std::string answer, const std::function<std::string()>& record) {
  while (true) {
    std::shared_ptr<const KeptAnswer> kept;
    {
      std::unique_lock lock(mutex_);
      recorded_.wait(lock, [&] { return !recording_.contains(key); });
      kept = FindKept(key);
      if (kept == nullptr || kept->study_id.empty()) {
        recording_.insert(key);
        break;
      }
    }
    if (IsWhole(*kept)) return kept;
  }
  // Others that wait for this key go on even if the call throws.
  std::shared_ptr<const KeptAnswer> kept;
  const auto end = [&](std::string id) {
    const std::int64_t plan_count = is_shared_ && !id.empty() ? CountPlans(id) : 0;
    kept = std::make_shared<const KeptAnswer>(KeptAnswer{
        .answer = std::move(answer), .study_id = std::move(id), .plan_count = plan_count});
    const std::lock_guard lock(mutex_);
    recording_.erase(key);
    Put(key, kept);
    recorded_.notify_all();
  };
  try {
    end(record());
  } catch (...) {
    end("");
    throw;
  }
  return kept;
}

void AnswerMemory::KeepUnrecorded(const std::string& key, std::string answer) {
  const std::lock_guard lock(mutex_);
  if (FindKept(key) != nullptr) return;
  Put(key, std::make_shared<const KeptAnswer>(KeptAnswer{.answer = std::move(answer)}));
}

void AnswerMemory::Forget(std::string_view study_id) {
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->kept->study_id == study_id) Drop(entry);
    entry = next;
  }
}

void AnswerMemory::Clear() {
  const std::lock_guard lock(mutex_);
  by_key_.clear();
  entries_.clear();
  bytes_ = 0;
}

std::size_t AnswerMemory::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::size_t AnswerMemory::BytesOf(const Entry& entry) {
  return kEntryBytes + 2 * entry.key.size() + entry.kept->answer.size() +
         entry.kept->study_id.size();
}

std::shared_ptr<const KeptAnswer> AnswerMemory::FindKept(const std::string& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->kept;
}

void AnswerMemory::Put(const std::string& key, std::shared_ptr<const KeptAnswer> kept) {
  if (const auto found = by_key_.find(key); found != by_key_.end()) Drop(found->second);
  entries_.push_front({.key = key, .kept = std::move(kept)});
  by_key_.emplace(key, entries_.begin());
  bytes_ += BytesOf(entries_.front());
  while (bytes_ > max_bytes_) Drop(std::prev(entries_.end()));
}

void AnswerMemory::Drop(Entries::iterator entry) {
  bytes_ -= BytesOf(*entry);
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

}  // namespace meshwright
