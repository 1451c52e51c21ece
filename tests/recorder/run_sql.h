#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <string>
#include <vector>

namespace meshwright {

// Runs statements on a file without the Recorder; returns the first column of each row.
inline std::vector<std::string> RunSql(const std::string& path, const std::string& sql) {
  sqlite3* connection = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  std::vector<std::string> rows;
  char* error = nullptr;
  const auto add = [](void* to, int, char** values, char**) {
    static_cast<std::vector<std::string>*>(to)->emplace_back(values[0] ? values[0] : "");
    return 0;
  };
  EXPECT_EQ(sqlite3_exec(connection, sql.c_str(), add, &rows, &error), SQLITE_OK)
      << (error != nullptr ? error : "");
  sqlite3_free(error);
  sqlite3_close(connection);
  return rows;
}

}  // namespace meshwright
