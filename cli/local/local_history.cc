#include "cli/local/local_history.h"

#include <chrono>

#include "search_space/base/status.h"
#include "server/engine/store_path.h"

namespace meshwright {
namespace {

// Other commands hold the store for milliseconds, but a server holds it as long as it runs.
constexpr std::chrono::seconds kLockWait(3);

}  // namespace

absl::StatusOr<Recorder> OpenLocalReader(const std::string& store) {
  auto reader = Recorder::Open({.path = store, .read_only = true});
  if (Reason(reader.status()) != "NO_STORE" || store != DefaultStorePath()) return reader;
  return Recorder::Open({.path = ":memory:"});
}

StoreAccess LocalReads(const std::string& store) {
  return {.read = [store](const StoreRead& read) -> absl::Status {
            ASSIGN_OR_RETURN(const Recorder recorder, OpenLocalReader(store));
            return read(recorder);
          },
          .write =
              [](const StoreCall&) {
                return absl::FailedPreconditionError("the local history is only read here");
              }};
}

absl::StatusOr<Recorder> OpenLocalWriter(const std::string& store, const std::string& who) {
  return Recorder::Open({.path = store, .lock_wait = kLockWait, .who = who});
}

}  // namespace meshwright
