#include "server/engine/sharing.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/leases.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "server/engine/engine_state.h"
#include "server/engine/queue/lease_keeper.h"
#include "server/engine/queue/study_queue.h"
#include "server/engine/recovery.h"

namespace meshwright {
namespace {

// So many looks go by between two proofs that a transaction can be committed.
constexpr int kLooksPerProof = 5;

// The studies of others whose requests are read in one look, to learn their lanes.
constexpr std::size_t kMaxNewStudies = 200;

std::vector<StudyLease> LeasesOf(EngineState& state) {
  const std::lock_guard lock(state.mutex);
  return state.studies.Leases();
}

// Asks the store even if there is no lease, so that a server that has lost its leases with its
// store does not seem to have renewed them.
absl::Status Renew(EngineState& state) {
  const std::vector<StudyLease> leases = LeasesOf(state);
  ASSIGN_OR_RETURN(const std::vector<bool> are_held, WriteTo(state.access, [&](Recorder& recorder) {
                     return recorder.RenewLeases(leases, state.hooks.study_lease.count());
                   }));
  for (std::size_t i = 0; i < leases.size(); ++i) {
    if (!are_held[i]) state.StopLost(leases[i]);
  }
  return absl::OkStatus();
}

// The things that others have stored since the last look.
struct Seen {
  std::vector<LeaseStanding> standings = {};  // of the studies that run here
  bool has_abandoned = false;
  std::vector<std::string> claimable = {};
};

absl::StatusOr<Seen> Read(EngineState& state, const std::vector<StudyLease>& leases) {
  return ReadFrom(state.access, [&](const Recorder& recorder) -> absl::StatusOr<Seen> {
    Seen seen;
    ASSIGN_OR_RETURN(seen.standings, recorder.ReadLeases(leases));
    ASSIGN_OR_RETURN(seen.has_abandoned, recorder.HasAbandonedStudies());
    ASSIGN_OR_RETURN(seen.claimable, recorder.ListClaimable());
    return seen;
  });
}

// Passes on to a study that runs here what others want of it.
void NoteWish(EngineState& state, const StudyLease& lease, const LeaseStanding& standing) {
  if (!standing.is_held) return state.StopLost(lease);
  std::optional<RunningStudy> to_stop;
  bool is_pausing = false;
  {
    const std::lock_guard lock(state.mutex);
    RunningStudy* const study = state.studies.Running(lease.study_id);
    if (study == nullptr || study->token != lease.token) return;
    const bool is_new_end =
        standing.state == StudyState::kCancelling && !study->is_cancelled_by_user;
    is_pausing = standing.is_to_pause && !study->is_pausing && !study->is_cancelled_by_user;
    if (!is_new_end && !is_pausing) return;
    study->is_cancelled_by_user |= is_new_end;
    study->is_pausing |= is_pausing;
    to_stop = *study;
  }
  if (is_pausing) to_stop->leave.request_stop();
  to_stop->cancel.request_stop();
}

// Queues the studies that wait for any server, in their order. `waited`: those that waited here
// before the list was read; those of them that are not in it have been taken. `others`: those that
// this server cannot run, as it is known already.
absl::Status TakeOffers(EngineState& state, const std::vector<std::string>& claimable,
                        const std::unordered_set<std::string>& waited,
                        std::unordered_set<std::string>& others) {
  const std::unordered_set<std::string_view> offered(claimable.begin(), claimable.end());
  std::erase_if(others, [&offered](const std::string& id) { return !offered.contains(id); });
  std::vector<std::string> unknown;
  {
    const std::lock_guard lock(state.mutex);
    for (const std::string& id : waited) {
      if (!offered.contains(id)) state.studies.Remove(id);
    }
    const auto is_known = [&](const std::string& id) {
      return others.contains(id) || state.studies.waiting_ids().contains(id) ||
             state.studies.Running(id) != nullptr;
    };
    for (const std::string& id : claimable) {
      if (unknown.size() < kMaxNewStudies && !is_known(id)) unknown.push_back(id);
    }
  }
  for (const std::string& id : unknown) {
    const auto study = state.queries.GetStudy(id);
    if (absl::IsNotFound(study.status())) continue;
    if (!study.ok()) return study.status();
    const Lane lane = LaneOf(state.codec.read_launcher(study->question));
    if (lane == Lane::kJobs && !state.hooks.allows_jobs) {
      others.insert(id);
      continue;
    }
    const std::lock_guard lock(state.mutex);
    state.Queue({.id = id, .lane = lane, .creator = study->creator});
  }
  return absl::OkStatus();
}

// The things that a look leaves to the next one.
struct LookMemory {
  int count = 0;
  std::unordered_set<std::string> others = {};  // studies that this server cannot run
};

absl::Status Look(EngineState& state, LookMemory& memory) {
  if (memory.count++ % kLooksPerProof == 0) RETURN_IF_ERROR(state.store.Check());
  const std::vector<StudyLease> leases = LeasesOf(state);
  std::unordered_set<std::string> waited;
  {
    const std::lock_guard lock(state.mutex);
    waited = state.studies.waiting_ids();
  }
  ASSIGN_OR_RETURN(const Seen seen, Read(state, leases));
  for (std::size_t i = 0; i < leases.size(); ++i) NoteWish(state, leases[i], seen.standings[i]);
  bool is_stopping = false;
  {
    const std::lock_guard lock(state.mutex);
    is_stopping = state.is_stopping;
  }
  if (is_stopping) return absl::OkStatus();
  if (seen.has_abandoned) {
    RETURN_IF_ERROR(state.store.Write(
        [&state](Recorder& recorder) { return TakeOverStudies(recorder, state.owner); }));
  }
  RETURN_IF_ERROR(TakeOffers(state, seen.claimable, waited, memory.others));
  return state.followers.PublishAll();
}

}  // namespace

std::unique_ptr<LeaseKeeper> StartSharing(EngineState& state) {
  return std::make_unique<LeaseKeeper>(
      LeaseTerms{.lease = state.hooks.study_lease},
      LeaseDuties{.renew = [&state] { return Renew(state); },
                  .look = [&state, memory = LookMemory()]() mutable { return Look(state, memory); },
                  .give_up =
                      [&state] {
                        for (const StudyLease& lease : LeasesOf(state)) state.StopLost(lease);
                      }});
}

}  // namespace meshwright
