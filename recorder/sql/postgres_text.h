#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// A statement in PostgreSQL's words.
struct PostgresText {
  std::string sql = {};
  // The parameters that the statement uses: $1 is parameter ?N with N = parameters[0], and so on.
  // PostgreSQL, unlike SQLite, refuses numbers that are not used.
  std::vector<int> parameters = {};
};

// Translates a statement that is written for SQLite. The two databases run the same text except for
// these words:
//
//   ?3           $1     parameters, numbered anew
//   +column      column the plus hides a column from SQLite's planner; it touches its column, and
//                       additions are written with blanks
//   CROSS JOIN   JOIN   the order of tables is a matter of SQLite's planner
//   json_each(   json_entries(, which a store defines, because PostgreSQL's own function of the
//                       name has values of another type
PostgresText TranslateStatement(std::string_view sql);

// Translates a step of the schema: the types of columns, and what follows a table.
std::string TranslateSchema(std::string_view sql);

}  // namespace meshwright
