#include "server/backups.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

using std::chrono::sys_seconds;

constexpr std::chrono::minutes kRetry(1);

sys_seconds Now() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

}  // namespace

std::string BackupLabel(sys_seconds time) {
  return fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

std::optional<sys_seconds> TimeOfBackupLabel(std::string_view label) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  const std::string text(label);
  if (std::sscanf(text.c_str(), "%4d%2u%2uT%2d%2d%2dZ", &year, &month, &day, &hour, &minute,
                  &second) != 6) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  if (!date.ok()) return std::nullopt;
  const sys_seconds time = std::chrono::sys_days(date) + std::chrono::hours(hour) +
                           std::chrono::minutes(minute) + std::chrono::seconds(second);
  // Other spellings of a time are no labels.
  if (BackupLabel(time) != label) return std::nullopt;
  return time;
}

absl::Status CheckBackupFolder(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) {
    return absl::NotFoundError(fmt::format("backup-folder: '{}' does not exist", folder));
  }
  if (!std::filesystem::is_directory(folder, error)) {
    return absl::InvalidArgumentError(fmt::format("backup-folder: '{}' is not a folder", folder));
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("backup-folder: '{}' cannot be written by this program's user", folder));
  }
  return absl::OkStatus();
}

Backups::Backups(BackupPlan plan, const std::string& store, const HistoryQueries& queries)
    : plan_(std::move(plan)),
      stem_(std::filesystem::path(store).stem().string()),
      extension_(std::filesystem::path(store).extension().string()),
      queries_(queries) {
  if (plan_.folder.empty()) return;
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any ends;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      const sys_seconds next = Work(stop);
      ends.wait_until(lock, stop, next, [] { return false; });
    }
  });
}

std::optional<std::int64_t> Backups::newest_seconds() const {
  const std::int64_t newest = newest_;
  return newest == 0 ? std::nullopt : std::optional(newest);
}

std::vector<sys_seconds> Backups::Times() const {
  std::vector<sys_seconds> times;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(plan_.folder, error)) {
    const std::string name = entry.path().filename();
    const std::string begin = stem_ + "-";
    std::string_view rest = name;
    if (!rest.starts_with(begin) || !rest.ends_with(extension_)) continue;
    rest.remove_prefix(begin.size());
    rest.remove_suffix(std::min(rest.size(), extension_.size()));
    if (const auto time = TimeOfBackupLabel(rest)) times.push_back(*time);
  }
  std::ranges::sort(times);
  return times;
}

std::string Backups::NameOf(sys_seconds time) const {
  return fmt::format("{}-{}{}", stem_, BackupLabel(time), extension_);
}

sys_seconds Backups::Work(const std::stop_token& stop) {
  std::vector<sys_seconds> times = Times();
  const sys_seconds now = Now();
  const std::chrono::hours between(plan_.hours);
  // A copy from the future, after the clock was set back, is no reason to wait.
  const auto after = std::ranges::upper_bound(times, now);
  if (after != times.begin() && now - *(after - 1) < between) {
    newest_ = (after - 1)->time_since_epoch().count();
    DeleteOldest(times);
    return *(after - 1) + between;
  }
  const absl::StatusOr<BackupFile> made = queries_.Backup(BackupLabel(now), plan_.folder, stop);
  if (absl::IsCancelled(made.status())) return now;  // the program ends
  if (!made.ok()) {
    spdlog::error("event=backup_failed reason={} what=\"{}\"", Reason(made.status()),
                  std::string(made.status().message()));
    return Now() + kRetry;
  }
  spdlog::info("event=backup_made file={} bytes={}", made->name, made->size_bytes);
  newest_ = now.time_since_epoch().count();
  times.insert(after, now);
  DeleteOldest(times);
  return now + between;
}

void Backups::DeleteOldest(const std::vector<sys_seconds>& times) const {
  const auto kept = std::min(times.size(), static_cast<std::size_t>(plan_.count));
  for (std::size_t i = 0; i + kept < times.size(); ++i) {
    const std::string name = NameOf(times[i]);
    std::error_code error;
    if (std::filesystem::remove(std::filesystem::path(plan_.folder) / name, error)) {
      spdlog::info("event=backup_deleted file={}", name);
    } else if (error) {
      spdlog::error("event=backup_stays file={} what=\"{}\"", name, error.message());
    }
  }
}

}  // namespace meshwright
