#include "server/engine/history_memory.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <optional>
#include <set>
#include <vector>

#include "recorder/history_records.h"
#include "recorder/page_token.h"
#include "recorder/recorder.h"
#include "search_space/base/status.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/cluster.h"
#include "server/engine/drift.h"
#include "server/engine/measured_rows.h"
#include "server/engine/store_history.h"
#include "server/tuner/learning/modelled_job.h"
#include "server/tuner/question/fingerprint.h"
#include "server/tuner/question/resolved_run.h"

namespace meshwright {
namespace {

using Rows = std::deque<std::shared_ptr<const ReadMeasurement>>;  // the newest is first

// Reads a measurement, and models its job in advance.
absl::StatusOr<std::shared_ptr<const ReadMeasurement>> ReadAndModel(
    MeasuredRows& rows, const MeasurementRecord& measurement) {
  ASSIGN_OR_RETURN(ReadMeasurement read, ReadRow(rows, measurement));
  if (read.row != nullptr) {
    HistoryRow row = *read.row;
    ResolvedJob& job = row.resolved;
    job.modelled = std::make_shared<const ModelledJob>(ModelJob(*job.problem, job.plan));
    read.row = std::make_shared<const HistoryRow>(std::move(row));
  }
  return std::make_shared<const ReadMeasurement>(std::move(read));
}

// Cuts a list behind the last row that an answer can use.
void CutUnused(Rows& rows) {
  int usable = 0;
  std::size_t length = 0;
  while (length < rows.size() && usable < kMaxStoreRows && length < kMaxStoreRowsRead) {
    usable += rows[length]->row != nullptr ? 1 : 0;
    ++length;
  }
  rows.resize(length);
}

}  // namespace

// Its content depends only on `last_`, the number of the last measurement or retraction that
// counts: measurements do not change.
class HistoryMemory::Shelf {
 public:
  explicit Shelf(const Problem& problem) : filter_(HistoryFilterOf(problem, 0)) {}

  // Returns nullopt if the shelf knows more than there was at that number.
  absl::StatusOr<std::optional<StoreHistory>> Read(const Recorder& recorder, const Problem& problem,
                                                   std::int64_t up_to, const Knowledge& knowledge,
                                                   const StudyCodec& codec);

 private:
  struct Job {
    std::string fingerprint = {};
    Rows rows = {};
  };

  absl::Status CatchUp(MeasuredRows& measured, std::int64_t last, std::int64_t up_to);
  // Puts rows in front of the list: those of the filter that are newer than `after`.
  absl::Status ReadNewer(MeasuredRows& measured, const MeasurementFilter& filter,
                         std::int64_t after, Rows& rows);
  absl::StatusOr<const Rows*> RowsOf(MeasuredRows& measured, const std::string& job,
                                     std::int64_t up_to);
  [[nodiscard]] MeasurementFilter FilterUpTo(std::int64_t sequence) const;
  void Forget();

  const MeasurementFilter filter_;
  std::mutex mutex_;  // guards what follows
  std::int64_t last_ = 0;
  std::int64_t last_retraction_ = 0;
  Rows all_;
  std::list<Job> jobs_;  // the one used last is first
  std::optional<std::string> drift_;
  StoredQuestions questions_;
};

MeasurementFilter HistoryMemory::Shelf::FilterUpTo(std::int64_t sequence) const {
  MeasurementFilter filter = filter_;
  filter.up_to_sequence = sequence;
  filter.retracted_up_to = sequence;
  return filter;
}

void HistoryMemory::Shelf::Forget() {
  last_ = 0;
  all_.clear();
  jobs_.clear();
  drift_.reset();
  questions_.clear();
}

absl::Status HistoryMemory::Shelf::ReadNewer(MeasuredRows& measured,
                                             const MeasurementFilter& filter, std::int64_t after,
                                             Rows& rows) {
  Rows newer;
  int usable = 0;
  std::string page_token;
  do {
    // After the first time there are mostly few new rows.
    ASSIGN_OR_RETURN(const MeasurementPage page, measured.recorder().ListMeasurements(
                                                     filter, MeasurementOrder::kNewest,
                                                     after == 0 ? kMaxPageSize : 0, page_token));
    for (const MeasurementRecord& measurement : page.measurements) {
      const bool is_enough = usable == kMaxStoreRows || std::ssize(newer) == kMaxStoreRowsRead;
      if (measurement.sequence <= after || is_enough) {
        rows.insert(rows.begin(), newer.begin(), newer.end());
        CutUnused(rows);
        return absl::OkStatus();
      }
      ASSIGN_OR_RETURN(newer.emplace_back(), ReadAndModel(measured, measurement));
      usable += newer.back()->row != nullptr ? 1 : 0;
    }
    page_token = page.next_page_token;
  } while (!page_token.empty());
  rows.insert(rows.begin(), newer.begin(), newer.end());
  CutUnused(rows);
  return absl::OkStatus();
}

absl::Status HistoryMemory::Shelf::CatchUp(MeasuredRows& measured, std::int64_t last,
                                           std::int64_t up_to) {
  // No measurement is on a chip without a name, so this is the last retraction.
  ASSIGN_OR_RETURN(const std::int64_t retraction,
                   measured.recorder().LastSequenceOf("", "", up_to));
  if (retraction != last_retraction_) Forget();
  // Questions of rows that have left would add up.
  if (questions_.size() > kMaxStoreRows) questions_.clear();
  MeasurementFilter filter = FilterUpTo(up_to);
  const std::int64_t known = last_;
  Rows all = all_;
  RETURN_IF_ERROR(ReadNewer(measured, filter, known, all));
  ASSIGN_OR_RETURN(std::optional<std::string> drift,
                   DriftWarning(measured, *filter.chip, *filter.framework, up_to));
  for (Job& job : jobs_) {
    Rows newer;
    for (const std::shared_ptr<const ReadMeasurement>& row : all) {
      if (row->sequence <= known) break;
      if (row->job_fingerprint == job.fingerprint) newer.push_back(row);
    }
    job.rows.insert(job.rows.begin(), newer.begin(), newer.end());
    CutUnused(job.rows);
  }
  // More came at once than the list keeps, so a job may have more new rows than it shows.
  if (!all.empty() && all.back()->sequence > known) jobs_.clear();
  all_ = std::move(all);
  drift_ = std::move(drift);
  last_retraction_ = retraction;
  last_ = last;
  return absl::OkStatus();
}

absl::StatusOr<const Rows*> HistoryMemory::Shelf::RowsOf(MeasuredRows& measured,
                                                         const std::string& job,
                                                         std::int64_t up_to) {
  const auto found = std::ranges::find(jobs_, job, &Job::fingerprint);
  if (found != jobs_.end()) {
    jobs_.splice(jobs_.begin(), jobs_, found);
    return &jobs_.front().rows;
  }
  MeasurementFilter filter = FilterUpTo(up_to);
  filter.job_fingerprint = job;
  Rows rows;
  RETURN_IF_ERROR(ReadNewer(measured, filter, 0, rows));
  jobs_.push_front({.fingerprint = job, .rows = std::move(rows)});
  if (jobs_.size() > kMaxRememberedJobs) jobs_.pop_back();
  return &jobs_.front().rows;
}

absl::StatusOr<std::optional<StoreHistory>> HistoryMemory::Shelf::Read(const Recorder& recorder,
                                                                       const Problem& problem,
                                                                       std::int64_t up_to,
                                                                       const Knowledge& knowledge,
                                                                       const StudyCodec& codec) {
  const std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const std::int64_t last,
                   recorder.LastSequenceOf(*filter_.chip, *filter_.framework, up_to));
  if (last < last_) return std::nullopt;
  MeasuredRows measured(recorder, knowledge, codec, &questions_);
  if (last > last_) RETURN_IF_ERROR(CatchUp(measured, last, up_to));
  ASSIGN_OR_RETURN(const Rows* own, RowsOf(measured, JobFingerprint(problem), up_to));
  HistoryGatherer gatherer(problem.cluster.pools.front().chip);
  for (const Rows* rows : {own, static_cast<const Rows*>(&all_)}) {
    for (const std::shared_ptr<const ReadMeasurement>& row : *rows) {
      if (gatherer.IsFull()) break;
      gatherer.Add(*row);
    }
  }
  StoreHistory history = gatherer.Take();
  if (drift_.has_value()) history.warnings.push_back(*drift_);
  return history;
}

HistoryMemory::HistoryMemory(StoreAccess store, const Knowledge& knowledge, StudyCodec codec)
    : store_(std::move(store)), knowledge_(knowledge), codec_(std::move(codec)) {}

HistoryMemory::~HistoryMemory() = default;

std::shared_ptr<HistoryMemory::Shelf> HistoryMemory::ShelfOf(const Problem& problem) {
  const Key key(problem.cluster.pools.front().chip.id, problem.profile.name);
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(shelves_, key, [](const auto& one) { return one.first; });
  if (found != shelves_.end()) {
    shelves_.splice(shelves_.begin(), shelves_, found);
  } else {
    shelves_.emplace_front(key, std::make_shared<Shelf>(problem));
    if (shelves_.size() > kMaxRememberedChips) shelves_.pop_back();
  }
  return shelves_.front().second;
}

absl::StatusOr<StoreHistory> HistoryMemory::Read(const Problem& problem,
                                                 std::int64_t up_to_sequence) {
  if (up_to_sequence == 0) return StoreHistory();
  const std::shared_ptr<Shelf> shelf = ShelfOf(problem);
  return ReadFrom(store_, [&](const Recorder& recorder) -> absl::StatusOr<StoreHistory> {
    ASSIGN_OR_RETURN(std::optional<StoreHistory> history,
                     shelf->Read(recorder, problem, up_to_sequence, knowledge_, codec_));
    if (history.has_value()) return *std::move(history);
    return ReadStoreHistory(recorder, problem, knowledge_, codec_, up_to_sequence);
  });
}

}  // namespace meshwright
