#pragma once

#include <sqlite3.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace meshwright {

// A file system that fails on request. It is SQLite's own, except that writes, syncs and
// truncations are counted and refused from a given number on. It is SQLite's default as long as it
// exists.
class FaultyVfs {
 public:
  // The kind of failure and the number of calls that fail.
  struct Fault {
    int at = 1;  // the first call that fails
    int code = SQLITE_IOERR_WRITE;
    bool once = true;  // false: every later call fails too, as on a full disk
  };

  FaultyVfs() : real_(sqlite3_vfs_find(nullptr)), vfs_(*real_) {
    vfs_.pNext = nullptr;
    vfs_.zName = "faulty";
    vfs_.pAppData = this;
    vfs_.szOsFile = kHeader + real_->szOsFile;
    vfs_.xOpen = Open;
    sqlite3_vfs_register(&vfs_, 1);
  }
  FaultyVfs(const FaultyVfs&) = delete;
  FaultyVfs& operator=(const FaultyVfs&) = delete;
  ~FaultyVfs() {
    sqlite3_vfs_unregister(&vfs_);
    sqlite3_vfs_register(real_, 1);
  }

  void Arm(const Fault& fault) {
    fault_ = fault;
    is_armed_ = true;
    calls_ = 0;
    has_failed_ = false;
  }
  void Disarm() { is_armed_ = false; }
  bool has_failed() const { return has_failed_; }

 private:
  struct File {
    sqlite3_file face;
    FaultyVfs* vfs;
    sqlite3_io_methods methods;
  };
  static constexpr int kHeader = (static_cast<int>(sizeof(File)) + 15) / 16 * 16;

  static sqlite3_file* Real(sqlite3_file* file) {
    return reinterpret_cast<sqlite3_file*>(reinterpret_cast<char*>(file) + kHeader);
  }
  static FaultyVfs& Vfs(sqlite3_file* file) { return *reinterpret_cast<File*>(file)->vfs; }

  bool Fails() {
    if (!is_armed_) return false;
    ++calls_;
    const bool fails = fault_.once ? calls_ == fault_.at : calls_ >= fault_.at;
    has_failed_ = has_failed_ || fails;
    return fails;
  }

  static int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out) {
    auto* self = static_cast<FaultyVfs*>(vfs->pAppData);
    std::memset(file, 0, static_cast<std::size_t>(kHeader));
    sqlite3_file* const real = Real(file);
    const int code = self->real_->xOpen(self->real_, name, real, flags, out);
    if (real->pMethods == nullptr) return code;
    auto* faulty = reinterpret_cast<File*>(file);
    faulty->vfs = self;
    faulty->methods = Methods(*real->pMethods);
    faulty->face.pMethods = &faulty->methods;
    return code;
  }

  // Every call goes to the real file, but three kinds of calls may fail first.
  static sqlite3_io_methods Methods(const sqlite3_io_methods& real) {
    sqlite3_io_methods m = real;
    m.xClose = [](sqlite3_file* f) { return Real(f)->pMethods->xClose(Real(f)); };
    m.xRead = [](sqlite3_file* f, void* to, int size, sqlite3_int64 at) {
      return Real(f)->pMethods->xRead(Real(f), to, size, at);
    };
    m.xWrite = [](sqlite3_file* f, const void* from, int size, sqlite3_int64 at) {
      if (Vfs(f).Fails()) return Vfs(f).fault_.code;
      return Real(f)->pMethods->xWrite(Real(f), from, size, at);
    };
    m.xTruncate = [](sqlite3_file* f, sqlite3_int64 size) {
      if (Vfs(f).Fails()) return SQLITE_IOERR_TRUNCATE;
      return Real(f)->pMethods->xTruncate(Real(f), size);
    };
    m.xSync = [](sqlite3_file* f, int flags) {
      if (Vfs(f).Fails()) return SQLITE_IOERR_FSYNC;
      return Real(f)->pMethods->xSync(Real(f), flags);
    };
    m.xFileSize = [](sqlite3_file* f, sqlite3_int64* size) {
      return Real(f)->pMethods->xFileSize(Real(f), size);
    };
    m.xLock = [](sqlite3_file* f, int lock) { return Real(f)->pMethods->xLock(Real(f), lock); };
    m.xUnlock = [](sqlite3_file* f, int lock) { return Real(f)->pMethods->xUnlock(Real(f), lock); };
    m.xCheckReservedLock = [](sqlite3_file* f, int* out) {
      return Real(f)->pMethods->xCheckReservedLock(Real(f), out);
    };
    m.xFileControl = [](sqlite3_file* f, int op, void* arg) {
      return Real(f)->pMethods->xFileControl(Real(f), op, arg);
    };
    m.xSectorSize = [](sqlite3_file* f) { return Real(f)->pMethods->xSectorSize(Real(f)); };
    m.xDeviceCharacteristics = [](sqlite3_file* f) {
      return Real(f)->pMethods->xDeviceCharacteristics(Real(f));
    };
    m.xShmMap = [](sqlite3_file* f, int page, int size, int extend, void volatile** out) {
      return Real(f)->pMethods->xShmMap(Real(f), page, size, extend, out);
    };
    m.xShmLock = [](sqlite3_file* f, int offset, int n, int flags) {
      return Real(f)->pMethods->xShmLock(Real(f), offset, n, flags);
    };
    m.xShmBarrier = [](sqlite3_file* f) { Real(f)->pMethods->xShmBarrier(Real(f)); };
    m.xShmUnmap = [](sqlite3_file* f, int remove) {
      return Real(f)->pMethods->xShmUnmap(Real(f), remove);
    };
    m.xFetch = [](sqlite3_file* f, sqlite3_int64 at, int size, void** out) {
      return Real(f)->pMethods->xFetch(Real(f), at, size, out);
    };
    m.xUnfetch = [](sqlite3_file* f, sqlite3_int64 at, void* page) {
      return Real(f)->pMethods->xUnfetch(Real(f), at, page);
    };
    return m;
  }

  sqlite3_vfs* real_;
  sqlite3_vfs vfs_;
  Fault fault_ = {};
  bool is_armed_ = false;
  int calls_ = 0;
  bool has_failed_ = false;
};

}  // namespace meshwright
