#include "server/rpc/services/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string_view>
#include <utility>

#include "recorder/records.h"
#include "search_space/base/status.h"
#include "server/convert/status_wire.h"
#include "server/convert/study_wire.h"
#include "server/convert/wire_time.h"
#include "server/engine/journal_events.h"
#include "server/rpc/calls/caller.h"

namespace meshwright {
namespace {

using std::chrono::steady_clock;

// The limit is higher than the number of events in the journal of a day-long study (engine.cc,
// kProgressInterval), so that a replay fits.
constexpr std::size_t kQueueLimit = 4096;

// How long a closed call waits for its reader to accept the message that is being written.
constexpr std::chrono::seconds kPatience{5};

absl::Status StoppingError() {
  return WithReason(absl::UnavailableError("the server is stopping; watch again from the last "
                                           "revision"),
                    "SERVER_STOPPING");
}

absl::Status TooMany(std::string_view whose, int limit) {
  return WithReason(absl::ResourceExhaustedError(
                        fmt::format("too many watches: {} are open already{}", limit, whose)),
                    "TOO_MANY_WATCHES");
}

}  // namespace

WatchReactor::WatchReactor(grpc::CallbackServerContext& context, Engine& engine, Watchers& watchers,
                           OnEnd on_end)
    : context_(context), engine_(engine), watchers_(watchers), on_end_(std::move(on_end)) {
  admitted_ = watchers_.Add(this, context.peer());
}

void WatchReactor::Follow(const std::string& study_id, std::int64_t after_revision) {
  if (!admitted_.ok()) {
    Close(admitted_);
    return;
  }
  if (after_revision < 0) {
    Close(InvalidFields({{.field = "after_revision", .description = "negative; must be >= 0"}}));
    return;
  }
  // If a study has ended and the reader has seen its last event, there will be no more events.
  if (const auto study = engine_.queries().GetStudy(study_id);
      study.ok() && IsTerminal(study->state) && after_revision >= study->revision) {
    Close(absl::OkStatus());
    return;
  }
  const auto subscription =
      engine_.Subscribe(study_id, after_revision,
                        [this](const std::optional<EventRecord>& event) { Receive(event); });
  if (subscription.ok()) {
    subscription_ = *subscription;
  } else {
    Close(absl::IsNotFound(subscription.status())
              ? WithResource(subscription.status(), "study", study_id)
              : subscription.status());
  }
}

void WatchReactor::Receive(const std::optional<EventRecord>& event) {
  if (event.has_value()) {
    if (event->kind == kStateEventKind) {
      const std::lock_guard lock(mutex_);
      has_seen_end_ = EndsStudy(*event);  // trials of a study that has ended may run again
    }
    Push(ToWire(*event));
    return;
  }
  bool has_seen_end = false;
  {
    const std::lock_guard lock(mutex_);
    has_seen_end = has_seen_end_;
  }
  Close(has_seen_end ? absl::OkStatus() : StoppingError());
}

void WatchReactor::Push(v1::WatchStudyResponse message) {
  {
    const std::lock_guard lock(mutex_);
    if (closing_.has_value()) return;
    if (queue_.size() >= kQueueLimit) {
      queue_.clear();
      CloseWith(WithReason(absl::AbortedError("the reader is too slow; watch again from the last "
                                              "revision"),
                           "RESYNC"));
    } else {
      last_revision_ = std::max(last_revision_, message.revision());
      queue_.push_back(std::move(message));
    }
  }
  Advance();
}

void WatchReactor::Close(const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    CloseWith(status);
  }
  Advance();
}

void WatchReactor::CloseWith(const absl::Status& status) {
  if (closing_.has_value()) return;
  closing_ = status;
  closed_at_ = steady_clock::now();
}

void WatchReactor::Heartbeat() {
  v1::WatchStudyResponse message;
  bool is_stuck = false;
  {
    const std::lock_guard lock(mutex_);
    // A reader that does not even accept the message being written is not told why.
    is_stuck = is_writing_ && closing_.has_value() &&
               steady_clock::now() - std::max(closed_at_, write_started_at_) > kPatience;
    // The waiting messages will show that the server is alive; a closed call takes no more.
    if (!is_stuck && (closing_.has_value() || !queue_.empty())) return;
    message.set_revision(last_revision_);
  }
  if (is_stuck) {
    context_.TryCancel();
    return;
  }
  message.set_kind("heartbeat");
  message.set_time(WireTimeNow());
  Push(std::move(message));
}

void WatchReactor::Advance() {
  absl::Status status;
  bool finishes = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_writing_ || is_finished_) return;
    if (!queue_.empty()) {
      current_ = std::move(queue_.front());
      queue_.pop_front();
      is_writing_ = true;
      write_started_at_ = steady_clock::now();
    } else if (closing_.has_value()) {
      is_finished_ = true;
      finishes = true;
      status = *closing_;
    } else {
      return;
    }
  }
  if (finishes) {
    on_end_(status);
    Finish(ToGrpc(status));  // last, because the reactor may be gone when this returns
  } else {
    StartWrite(&current_);
  }
}

void WatchReactor::OnWriteDone(bool ok) {
  {
    const std::lock_guard lock(mutex_);
    is_writing_ = false;
    if (!ok) {
      queue_.clear();
      CloseWith(absl::CancelledError("the reader has disconnected"));
    }
  }
  Advance();
}

void WatchReactor::OnCancel() {
  {
    const std::lock_guard lock(mutex_);
    queue_.clear();
    CloseWith(absl::CancelledError("the reader has disconnected"));
  }
  Advance();
}

void WatchReactor::OnDone() {
  if (subscription_.has_value()) engine_.Unsubscribe(*subscription_);
  watchers_.Remove(this);
  delete this;
}

Watchers::Watchers(const WatchOptions& options)
    : options_(options), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

absl::Status Watchers::Add(WatchReactor* watch, const std::string& peer) {
  const std::string host = HostOfPeer(peer);
  const std::lock_guard lock(mutex_);
  if (is_closed_) return StoppingError();
  if (std::ssize(watches_) >= options_.limit) return TooMany("", options_.limit);
  if (Count(host) >= options_.host_limit) return TooMany(" of this machine", options_.host_limit);
  // Clients of HTTP/2 keep a limit of open calls by themselves, but nothing makes others do so.
  if (peer != host && Count(peer) >= options_.connection_limit) {
    return TooMany(" of this connection", options_.connection_limit);
  }
  ChangeCount(host, 1);
  if (peer != host) ChangeCount(peer, 1);
  watches_.emplace(watch, peer);
  return absl::OkStatus();
}

void Watchers::Remove(WatchReactor* watch) {
  const std::lock_guard lock(mutex_);
  const auto found = watches_.find(watch);
  if (found == watches_.end()) return;
  const std::string host = HostOfPeer(found->second);
  ChangeCount(host, -1);
  if (found->second != host) ChangeCount(found->second, -1);
  watches_.erase(found);
}

int Watchers::Count(const std::string& caller) const {
  const auto count = counts_.find(caller);
  return count == counts_.end() ? 0 : count->second;
}

void Watchers::ChangeCount(const std::string& caller, int change) {
  const auto count = counts_.try_emplace(caller, 0).first;
  count->second += change;
  if (count->second == 0) counts_.erase(count);
}

void Watchers::Close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  for (const auto& [watch, peer] : watches_) watch->Close(StoppingError());
}

int Watchers::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(watches_.size());
}

void Watchers::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    changed_.wait_for(lock, stop, options_.heartbeat, [] { return false; });
    if (stop.stop_requested()) return;
    for (const auto& [watch, peer] : watches_) watch->Heartbeat();
  }
}

}  // namespace meshwright
