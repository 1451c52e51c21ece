#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/store_access.h"
#include "server/engine/engine_options.h"
#include "server/tuner/question/resolved_study.h"

namespace meshwright {

// The bytes of answers that a server remembers.
inline constexpr std::size_t kMaxAnswerMemoryBytes = std::size_t{64} << 20;

// An answer as it was given first.
struct KeptAnswer {
  std::string answer = {};      // bytes, as a study stores them (StudyCodec::encode_answer)
  std::string study_id = {};    // the study that has it; empty: none
  std::int64_t plan_count = 0;  // plans of the study, if other servers may delete it or them
};

// Remembers answers, so that an equal question needs no search and makes no further study. It is
// part of one process, so all of its answers come from one version of the program, of the facts
// about chips and of the store's schema. The answers that nobody has asked for the longest leave
// first. May be used from any thread.
class AnswerMemory {
 public:
  // `is_shared`: other servers may delete the studies that have the answers, or their plans, so
  // each answer is compared with its study before it is given again.
  AnswerMemory(StoreAccess store, StudyCodec codec, std::size_t max_bytes = kMaxAnswerMemoryBytes,
               bool is_shared = false);
  AnswerMemory(const AnswerMemory&) = delete;
  AnswerMemory& operator=(const AnswerMemory&) = delete;

  // Returns the key of the answer to a question that learns from the store's measurements up to a
  // number. Questions with one key have one answer: it covers all that was asked, and the last
  // measurement or retraction that can count for it. Returns nullopt if the answer depends on more
  // than these, as that of a vendor's model does.
  absl::StatusOr<std::optional<std::string>> KeyOf(const ResolvedStudy& asked,
                                                   std::int64_t sequence) const;

  // Does the same for a question by the bytes in which it was stated, if `Learn` has seen them: it
  // need not be read again. nullopt: it has not, or the answer must not be kept.
  absl::StatusOr<std::optional<std::string>> KeyOfStated(const std::string& stated);
  // Notes which question the bytes state.
  void Learn(const std::string& stated, const ResolvedStudy& asked);

  // Returns null if there is no such answer, or none that a study has if one is needed.
  std::shared_ptr<const KeptAnswer> Find(const std::string& key, bool needs_study);

  // Keeps an answer, and returns the one that is kept: this one or, if it is `recorded` and an
  // equal answer has a study already, that one. `record` makes the study and returns its id, or
  // an empty text if it could not; it is called once for all equal answers that arrive together.
  std::shared_ptr<const KeptAnswer> KeepRecorded(const std::string& key, std::string answer,
                                                 const std::function<std::string()>& record);
  // Keeps an answer that has no study, unless an equal one is there.
  void KeepUnrecorded(const std::string& key, std::string answer);

  // Forgets the answers that a study has.
  void Forget(std::string_view study_id);
  // Forgets all answers.
  void Clear();

  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Entry {
    std::string key = {};
    std::shared_ptr<const KeptAnswer> kept = {};
  };
  using Entries = std::list<Entry>;

  // The part of a question that KeyOf takes.
  struct Subject {
    std::string digest = {};  // of everything that was asked
    std::vector<std::string> chips = {};
    std::string framework = {};
    std::optional<std::int64_t> history_sequence = {};
  };

  [[nodiscard]] Subject SubjectOf(const ResolvedStudy& asked) const;
  [[nodiscard]] absl::StatusOr<std::string> KeyOf(const Subject& subject,
                                                  std::int64_t sequence) const;

  // Returns the number of plans of an answer's study; 0 if it is gone.
  [[nodiscard]] std::int64_t CountPlans(const std::string& study_id) const;
  // Returns false, and forgets the answer, if its study is no longer as it was.
  bool IsWhole(const KeptAnswer& kept);

  static std::size_t BytesOf(const Entry& entry);
  // These are called with the mutex held.
  std::shared_ptr<const KeptAnswer> FindKept(const std::string& key);
  void Put(const std::string& key, std::shared_ptr<const KeptAnswer> kept);
  void Drop(Entries::iterator entry);

  const StoreAccess store_;
  const StudyCodec codec_;
  const std::size_t max_bytes_;
  const bool is_shared_;

  mutable std::mutex mutex_;
  std::condition_variable recorded_;
  Entries entries_;  // the one that was asked for last is first
  std::unordered_map<std::string, Entries::iterator> by_key_;
  std::set<std::string> recording_;  // keys whose answers are being recorded
  std::unordered_map<std::string, std::shared_ptr<const Subject>> stated_;  // by digest of bytes
  std::size_t bytes_ = 0;
};

}  // namespace meshwright
