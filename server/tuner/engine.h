#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/recorder.h"
#include "server/tuner/study.h"

namespace meshwright {

// How a study's request and answer are written to the store. Supplied by server/rpc (protobuf), so
// that nothing in here knows wire types.
struct StudyCodec {
  std::function<std::string(const StudyRequest&)> encode_request = {};
  std::function<absl::StatusOr<StudyRequest>(std::string_view)> decode_request = {};
  std::function<std::string(const StudyAnswer&)> encode_answer = {};
  std::function<std::string(const ParallelPlan&)> encode_plan = {};
  std::function<std::string(const Estimate&)> encode_estimate = {};
  std::function<std::string(const Progress&)> encode_progress = {};
};

struct CreateStudyOptions {
  std::optional<std::string> study_id = {};
  std::optional<std::string> request_id = {};
};

// Called with each new event of a study, from the engine's thread, and once with nothing when the
// study has ended. Must return at once.
using EventSink = std::function<void(const std::optional<EventRecord>&)>;

// Runs studies one after the other on a thread of its own and keeps them in the store. All methods
// may be called from any thread. At start, studies that an earlier process left behind are shown as
// interrupted and then run again from their stored request.
class Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Start(Recorder recorder,
                                                       const Knowledge& knowledge,
                                                       StudyCodec codec);
  ~Engine();  // cancels what runs, leaves it resumable in the store
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  absl::StatusOr<StudyRecord> CreateStudy(const StudyRequest& request,
                                          const CreateStudyOptions& options);
  absl::StatusOr<StudyRecord> GetStudy(std::string_view id);
  absl::StatusOr<StudyPage> ListStudies(int page_size, std::string_view page_token);
  absl::StatusOr<PlanPage> ListPlans(std::string_view id, int page_size,
                                     std::string_view page_token);
  absl::StatusOr<std::vector<EventRecord>> ListEvents(std::string_view id,
                                                      std::int64_t after_revision);
  // Idempotent. The study ends as CANCELLED, with the best plan so far when there is one.
  absl::StatusOr<StudyRecord> CancelStudy(std::string_view id);

  // Replays events after `after_revision`, then follows. Returns a subscription; Unsubscribe stops
  // the calls before it returns.
  absl::StatusOr<std::int64_t> Subscribe(std::string_view id, std::int64_t after_revision,
                                         EventSink sink);
  void Unsubscribe(std::int64_t subscription);

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meshwright
