#include "server/engine/store.h"

#include <algorithm>
#include <span>
#include <utility>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

// The number of readers that stay open. Simultaneous calls open more if needed.
constexpr std::size_t kMaxIdleReaders = 8;

}  // namespace

Store::Store(Recorder writer, std::function<void(std::chrono::duration<double>)> on_write)
    : path_(writer.path()),
      files_(IsStoreFile(path_) ? path_ : ""),
      on_write_(std::move(on_write)),
      writer_(std::move(writer)),
      group_commit_([this](std::span<const StoreCall> calls) { return RunTogether(calls); }) {}

absl::Status Store::Read(const StoreRead& read) {
  if (path_.empty()) {
    const std::lock_guard lock(writer_mutex_);
    return read(writer_);
  }
  ASSIGN_OR_RETURN(Recorder reader, TakeReader());
  absl::Status status = read(reader);
  GiveBack(std::move(reader));
  return status;
}

absl::Status Store::Write(StoreCall call) { return group_commit_.Run(std::move(call)); }

absl::Status Store::Check() {
  if (!is_shared()) return files_.Check();
  const StoreCall nothing = [](Recorder&) { return absl::OkStatus(); };
  const std::lock_guard lock(writer_mutex_);
  return writer_.RunTogether({&nothing, 1}).front();
}

StoreAccess Store::Access() {
  return {.read = [this](const StoreRead& read) { return Read(read); },
          .write = [this](const StoreCall& call) { return Write(call); }};
}

std::chrono::duration<double> Store::longest_hold() const {
  const std::lock_guard lock(writer_mutex_);
  return longest_hold_;
}

absl::StatusOr<Recorder> Store::TakeReader() {
  {
    const std::lock_guard lock(readers_mutex_);
    if (!idle_readers_.empty()) {
      Recorder reader = std::move(idle_readers_.back());
      idle_readers_.pop_back();
      return reader;
    }
  }
  RETURN_IF_ERROR(files_.Check());  // not another file that has the name now
  return Recorder::Open({.path = path_, .read_only = true, .who = "meshwrightd: reader"});
}

void Store::GiveBack(Recorder reader) {
  const std::lock_guard lock(readers_mutex_);
  if (idle_readers_.size() < kMaxIdleReaders) idle_readers_.push_back(std::move(reader));
}

std::vector<absl::Status> Store::RunTogether(std::span<const StoreCall> calls) {
  const std::lock_guard lock(writer_mutex_);
  if (const absl::Status file = files_.Check(); !file.ok()) return {calls.size(), file};
  const auto start = std::chrono::steady_clock::now();
  std::vector<absl::Status> results = writer_.RunTogether(calls);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  longest_hold_ = std::max(longest_hold_, took);
  if (on_write_) on_write_(took);
  // The file may have gone meanwhile, with what was written into it.
  if (const absl::Status file = files_.Check(); !file.ok()) return {calls.size(), file};
  return results;
}

}  // namespace meshwright
