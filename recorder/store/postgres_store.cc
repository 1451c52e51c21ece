#include "recorder/store/postgres_store.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "recorder/sql/connection.h"
#include "recorder/sql/postgres.h"
#include "recorder/sql/sql.h"
#include "recorder/store/schema.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

// The identity of a store, and functions that SQLite has built in and the recorder's statements
// use. Two have SQLite's names; postgres_text.h names the third. Members of a JSON object have
// keys, and those of a list only values.
constexpr char kFunctions[] = R"sql(
CREATE TABLE store_identity (
  application text NOT NULL,
  schema_version bigint NOT NULL
);
INSERT INTO store_identity VALUES ('meshwright', 0);

CREATE FUNCTION instr(text, text) RETURNS integer
  LANGUAGE sql IMMUTABLE STRICT AS 'SELECT strpos($1, $2)';

CREATE FUNCTION with_json_member(jsonb, text, text) RETURNS jsonb
  LANGUAGE sql IMMUTABLE AS 'SELECT $1 || jsonb_build_object($2, $3)';
CREATE FUNCTION json_text(jsonb) RETURNS text
  LANGUAGE sql IMMUTABLE AS 'SELECT $1::text';
CREATE AGGREGATE json_group_object(text, text) (
  SFUNC = with_json_member, STYPE = jsonb, INITCOND = '{}', FINALFUNC = json_text
);

CREATE FUNCTION json_entries(text) RETURNS TABLE (key text, value text)
  LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF json_typeof($1::json) = 'object' THEN
    RETURN QUERY SELECT entry.key, entry.value FROM json_each_text($1::json) AS entry;
  ELSE
    RETURN QUERY SELECT NULL::text, entry.value FROM json_array_elements_text($1::json) AS entry;
  END IF;
END $$;
)sql";

// Returns the schema version of the tables; 0 if there are none. FOREIGN_STORE: the schema holds
// something else; NEWER_STORE: a later program wrote it.
absl::StatusOr<int> VersionOf(Connection* connection, const std::string& address) {
  ASSIGN_OR_RETURN(
      const std::string encoding,
      QueryText(connection, "SELECT CAST(current_setting('server_encoding') AS text)"));
  if (encoding != "UTF8") {
    return ForeignStore(address,
                        fmt::format("the encoding of the database is {}, not UTF8", encoding));
  }
  ASSIGN_OR_RETURN(const std::int64_t has_schema,
                   QueryInteger(connection, "SELECT current_schema() IS NOT NULL"));
  if (has_schema == 0) return ForeignStore(address, "its search_path names no schema");
  ASSIGN_OR_RETURN(const std::int64_t has_identity, QueryInteger(connection, R"sql(
SELECT count(*) FROM pg_catalog.pg_class
WHERE relnamespace = current_schema()::regnamespace AND relname = 'store_identity')sql"));
  if (has_identity == 0) {
    ASSIGN_OR_RETURN(const std::int64_t count, QueryInteger(connection, R"sql(
SELECT count(*) FROM pg_catalog.pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f'))sql"));
    if (count == 0) return 0;
    return ForeignStore(address, "the schema of the database holds other tables");
  }
  ASSIGN_OR_RETURN(const std::int64_t is_ours, QueryInteger(connection, R"sql(
SELECT count(*) FROM store_identity WHERE application = 'meshwright')sql"));
  if (is_ours == 0) return ForeignStore(address, "the schema holds another application's tables");
  ASSIGN_OR_RETURN(const std::int64_t version,
                   QueryInteger(connection, "SELECT schema_version FROM store_identity"));
  if (version > kSchemaVersion) return NewerStore(address, version);
  return static_cast<int>(version);
}

// Creates or upgrades the tables. Looks at the version again in the transaction, because another
// process may have done it meanwhile.
absl::Status Migrate(Connection* connection, const std::string& address) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection));
  ASSIGN_OR_RETURN(const int version, VersionOf(connection, address));
  if (version == kSchemaVersion) return absl::OkStatus();
  if (version == 0) RETURN_IF_ERROR(connection->Execute(kFunctions));
  RETURN_IF_ERROR(RunSteps(connection, version, SchemaWords::kPostgres));
  RETURN_IF_ERROR(connection->Execute(
      fmt::format("UPDATE store_identity SET schema_version = {}", kSchemaVersion)));
  return transaction.Commit();
}

}  // namespace

absl::StatusOr<OpenedStore> OpenPostgresStore(const OpenOptions& options) {
  ASSIGN_OR_RETURN(auto connection, PostgresConnection::Open({.address = options.path,
                                                              .read_only = options.read_only,
                                                              .who = options.who,
                                                              .takes_right = options.runs_studies,
                                                              .wait = options.lock_wait}));
  ASSIGN_OR_RETURN(const int version, VersionOf(connection.get(), options.path));
  if (version < kSchemaVersion && options.read_only) {
    return version == 0 ? NoStore(options.path) : OlderStore(options.path, version);
  }
  if (version < kSchemaVersion) RETURN_IF_ERROR(Migrate(connection.get(), options.path));
  return OpenedStore{.connection = std::move(connection), .address = options.path};
}

}  // namespace meshwright
