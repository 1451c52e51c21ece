#include "tests/stores/test_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string_view>

#include "tests/recorder/run_sql.h"

namespace meshwright {
namespace {

// Returns the address of the server that the environment names a file for; without one, an address
// that nobody answers.
std::string ServerAddress() {
  const char* const path = std::getenv("MESHWRIGHT_POSTGRES");
  std::ifstream file(path == nullptr ? "" : path);
  std::string address;
  std::getline(file, address);
  EXPECT_FALSE(address.empty()) << "no PostgreSQL: run by ctest, or scripts/postgres_up.sh FOLDER "
                                   "and MESHWRIGHT_POSTGRES=FOLDER/address";
  return address.empty() ? "postgresql:///none?host=/nonexistent" : address;
}

std::vector<std::string> RunOnPostgres(const std::string& address, const std::string& sql) {
  std::vector<std::string> rows;
  PGconn* const connection = PQconnectdb(address.c_str());
  EXPECT_EQ(PQstatus(connection), CONNECTION_OK) << PQerrorMessage(connection);
  PQclear(PQexec(connection, "SET client_min_messages = error; SET bytea_output = escape"));
  PGresult* const result = PQexec(connection, sql.c_str());
  EXPECT_NE(PQresultStatus(result), PGRES_FATAL_ERROR) << PQerrorMessage(connection);
  for (int row = 0; row < PQntuples(result); ++row) rows.emplace_back(PQgetvalue(result, row, 0));
  PQclear(result);
  PQfinish(connection);
  return rows;
}

}  // namespace

std::string NameOf(StorePlace place) {
  switch (place) {
    case StorePlace::kMemory:
      return "InMemory";
    case StorePlace::kFile:
      return "InFile";
    case StorePlace::kPostgres:
      return "OnPostgres";
  }
  std::abort();
}

std::vector<StorePlace> AllPlaces() {
  std::vector<StorePlace> places = DurablePlaces();
  places.push_back(StorePlace::kMemory);
  return places;
}

std::vector<StorePlace> DurablePlaces() {
  const char* const server = std::getenv("MESHWRIGHT_POSTGRES");
  const bool is_off = server != nullptr && std::string_view(server) == "off";
  if (is_off) return {StorePlace::kFile};
  return {StorePlace::kFile, StorePlace::kPostgres};
}

TestStore::TestStore(StorePlace place) : place_(place) {
  if (place_ == StorePlace::kMemory) address_ = ":memory:";
  if (place_ == StorePlace::kFile) address_ = folder_.File("s.db");
  if (place_ != StorePlace::kPostgres) return;
  static int count = 0;
  server_ = ServerAddress();
  schema_ = fmt::format("test_{}_{}", getpid(), ++count);
  address_ = fmt::format("{}&options=-csearch_path%3D{}", server_, schema_);
  RunOnPostgres(server_, "CREATE SCHEMA " + schema_);
}

TestStore::~TestStore() {
  if (!schema_.empty()) RunOnPostgres(server_, fmt::format("DROP SCHEMA {} CASCADE", schema_));
}

std::vector<std::string> TestStore::Sql(const std::string& sql) const {
  return place_ == StorePlace::kPostgres ? RunOnPostgres(address_, sql) : RunSql(address_, sql);
}

}  // namespace meshwright
