// Brings files into memory ahead of the threads that hash them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>

namespace sweep::weights {

// One thread for all files. Hashing alone keeps a core busy; what the kernel does to bring a page in (finding room for
// it, asking the device) takes about as long again, and is done here instead. Only files that are found not to be in
// memory are read ahead, each by at most a fixed distance, so that memory use does not grow with the files.
class ReadAhead {
 public:
  class File;

  ReadAhead() = default;
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead();

 private:
  struct Entry {
    int fd = -1;
    uint64_t size = 0;
    uint64_t needed_to = 0;  // end of what the hashing thread has taken
    uint64_t asked_to = 0;   // end of what was asked for
    bool cold = false;
    bool busy = false;  // the kernel is being asked with this descriptor
  };
  using Entries = std::list<Entry>;

  void run(const std::stop_token& stop);
  Entry* most_urgent();

  std::mutex mutex_;
  std::condition_variable_any changed_;
  Entries entries_;  // guarded by mutex_
  std::jthread thread_;
};

// A file while it is being read from its begin to its end.
class ReadAhead::File {
 public:
  // `fd` must stay open until this object is gone.
  File(ReadAhead& owner, int fd, uint64_t size);
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  // As pread(2) at the place where the last call ended.
  ssize_t read(char* to, size_t size);

 private:
  ReadAhead& owner_;
  int fd_;
  uint64_t at_ = 0;
  bool nowait_ = true;
  Entries::iterator entry_;
};

}  // namespace sweep::weights
