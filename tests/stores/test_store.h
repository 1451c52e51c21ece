#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/files/temporary_folder.h"

namespace meshwright {

// The places in which tests keep their stores.
enum class StorePlace { kMemory, kFile, kPostgres };

// A name for instances of tests.
std::string NameOf(StorePlace place);

// Returns where the tests of all stores run, and of those that outlive their Recorder. PostgreSQL
// is among them unless it was left out (cmake -DMESHWRIGHT_TEST_POSTGRES=OFF).
std::vector<StorePlace> AllPlaces();
std::vector<StorePlace> DurablePlaces();

// A store of one test, with an address for Recorder::Open. On PostgreSQL it is a schema of its own,
// on the server that ctest has started (cmake/postgres.cmake). Removed with this object.
class TestStore {
 public:
  explicit TestStore(StorePlace place);
  TestStore(const TestStore&) = delete;
  TestStore& operator=(const TestStore&) = delete;
  ~TestStore();

  [[nodiscard]] StorePlace place() const { return place_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] bool outlives_recorder() const { return place_ != StorePlace::kMemory; }

  // Runs statements without the Recorder; returns the first column of each row. Not in memory.
  std::vector<std::string> Sql(const std::string& sql) const;

 private:
  const StorePlace place_;
  TemporaryFolder folder_;
  std::string server_;  // the address without the schema
  std::string schema_;
  std::string address_;
};

}  // namespace meshwright
