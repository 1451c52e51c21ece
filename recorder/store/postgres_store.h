#pragma once

#include "absl/status/statusor.h"
#include "recorder/store/opened_store.h"

namespace meshwright {

// Opens a store on a PostgreSQL server, as Recorder::Open does. Its tables are those of the
// connection's schema. A writer creates them, and upgrades older ones in one transaction; it holds
// no lock between its transactions, so that any number of processes write.
absl::StatusOr<OpenedStore> OpenPostgresStore(const OpenOptions& options);

}  // namespace meshwright
