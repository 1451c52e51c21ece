#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "recorder/sql/connection.h"
#include "recorder/store/store_lock.h"

namespace meshwright {

struct OpenOptions {
  // A file, or postgresql://...; ":memory:" is a store that lasts as long as the Recorder.
  std::string path = {};
  bool read_only = false;  // takes no lock and creates nothing; sees committed data
  // The time to wait for the right to write a file, or to run studies.
  std::chrono::milliseconds lock_wait = std::chrono::milliseconds(0);
  std::string who = "meshwright";  // describes the writer to other processes
  // On PostgreSQL, where many processes write, takes the right to run studies. Servers share it,
  // but those of before schema version 14 have it alone. Whoever writes a file has it anyway.
  bool runs_studies = false;
};

// A store whose tables are there and have the newest layout.
struct OpenedStore {
  StoreLock lock = {};  // of a file's writer
  std::unique_ptr<Connection> connection = {};
  std::string address = {};  // a file with links resolved, or postgresql://...; empty in memory
};

}  // namespace meshwright
