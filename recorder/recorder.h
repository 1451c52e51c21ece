#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/records.h"
#include "recorder/sql.h"
#include "recorder/store_lock.h"

namespace meshwright {

struct OpenOptions {
  std::string path = {};   // ":memory:" is a store that ends with the Recorder
  bool read_only = false;  // takes no lock and creates nothing; sees what is committed
  std::chrono::milliseconds lock_wait = std::chrono::milliseconds(0);
  std::string who = "meshwright";  // what another process reads about the holder of the lock
};

struct InsertedStudy {
  StudyRecord study = {};
  bool is_new = true;  // false: the same request made it before
};

struct StudyPage {
  std::vector<StudyRecord> studies = {};
  std::string next_page_token = {};  // empty on the last page
};

struct PlanPage {
  std::vector<PlanRecord> plans = {};
  std::string next_page_token = {};
};

// The durable history: studies, their ranked plans and their journals, in one SQLite file
// (docs/store.md). One process writes, any number reads. What a call has acknowledged survives the
// process and the machine; each call is one transaction, so many records a call is the fast way.
// Used by one thread at a time: a server gives its writer thread one Recorder and its readers
// others (read_only), each its own. Starts no thread and reads no clock.
class Recorder {
 public:
  // Errors, by reason: STORE_IN_USE, FOREIGN_STORE, NEWER_STORE, NETWORK_FILE_SYSTEM,
  // STORE_CORRUPT, STORE_IO; for a reader also NO_STORE (NOT_FOUND) and OLDER_STORE, because only a
  // writer creates and upgrades.
  static absl::StatusOr<Recorder> Open(const OpenOptions& options);

  Recorder(Recorder&&) noexcept = default;
  Recorder& operator=(Recorder&& other) noexcept;

  // Stores a new study with its first event; the record's revision is not looked at. A request_id
  // that is there gives the study it made when the request_hash is the same, else INVALID_ARGUMENT
  // with reason REQUEST_ID_REUSED. A used id: ALREADY_EXISTS.
  absl::StatusOr<InsertedStudy> InsertStudy(const StudyRecord& study);

  // Changes the state of a living study and journals it; gives the study as it then is.
  // FAILED_PRECONDITION: STUDY_ENDED for a terminal study, STUDY_CANCELLING when a study that is
  // being cancelled would live on. Cancelling it once more changes nothing.
  absl::StatusOr<StudyRecord> UpdateStudy(const StudyUpdate& update);

  // Ends a study: state, answer, plans and last events at once. STUDY_ENDED as above.
  absl::StatusOr<StudyRecord> FinishStudy(const StudyEnding& ending);

  // All or none. Unknown study: NOT_FOUND; a rank that is there: ALREADY_EXISTS.
  absl::Status AppendPlans(std::span<const PlanRecord> plans);

  // All or none; gives the revisions, in the events' order.
  absl::StatusOr<std::vector<std::int64_t>> AppendEvents(std::span<const EventRecord> events);

  [[nodiscard]] absl::StatusOr<StudyRecord> GetStudy(std::string_view id) const;

  // Newest first, by create time, then id; without `question` and `result`, to keep lists small.
  // page_size: 0 is 50, at most 1000. Rows that arrive meanwhile neither repeat nor hide others.
  [[nodiscard]] absl::StatusOr<StudyPage> ListStudies(int page_size,
                                                      std::string_view page_token) const;

  // By rank, the baseline (0) first.
  [[nodiscard]] absl::StatusOr<PlanPage> ListPlans(std::string_view study_id, int page_size,
                                                   std::string_view page_token) const;

  // The journal after a revision (0: from its start), oldest first. limit: as page_size.
  [[nodiscard]] absl::StatusOr<std::vector<EventRecord>> ListEvents(std::string_view study_id,
                                                                    std::int64_t after_revision,
                                                                    int limit) const;

  // Every queued, running or cancelling study whose owner is not alive becomes interrupted, or
  // cancelled if it was cancelling, with an event; gives those studies. For the start of a process.
  absl::StatusOr<std::vector<StudyRecord>> InterruptOrphans(
      const std::function<bool(std::string_view owner)>& is_alive, std::int64_t time_ms);

  // A consistent copy into a new file, while others read and write. ALREADY_EXISTS if it is there.
  absl::Status Backup(const std::string& path) const;

  [[nodiscard]] int schema_version() const { return schema_version_; }

 private:
  Recorder(StoreLock lock, Connection connection, int schema_version);
  static absl::StatusOr<Recorder> OpenReader(const std::string& path);
  static absl::StatusOr<Recorder> OpenWriter(const std::string& path, const OpenOptions& options);

  StoreLock lock_;  // released after the connection is closed
  Connection connection_;
  int schema_version_;
};

}  // namespace meshwright
