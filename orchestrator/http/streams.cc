#include "orchestrator/http/streams.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "orchestrator/base/clock.h"
#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/http.h"
#include "orchestrator/http/receive_time.h"
#include "orchestrator/http/transfer.h"

namespace sweep::http {

namespace {
// Our own limits are looked at this often: precise enough for limits of seconds, and cheap with a thousand streams.
constexpr int64_t kExpiryCheckMs = 20;
constexpr int kEventsPerWait = 256;
// Reading goes before delivering, so that what the next chunk would join is read before that one comes; up to this
// much.
constexpr size_t kMostHeldBytes = size_t{256} << 10;
constexpr int kMostRounds = 1000;  // of reading before what was read is delivered, come what may
}  // namespace

// libcurl's multi interface on epoll: the cost of a wake-up does not grow with the number of idle streams.
class Streams::State {
 public:
  static diag::Result<std::unique_ptr<State>> open(std::stop_token stop);

  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  Id start(Method method, Request request, StreamCallbacks callbacks);
  void cancel(Id id);
  size_t active() const { return streams_.size(); }
  void poll(std::chrono::nanoseconds longest);

 private:
  struct Stream {
    Id id = 0;
    StreamCallbacks callbacks;
    std::unique_ptr<Transfer> transfer;
    bool added = false;
    bool head_given = false;
    int64_t last_ns = 0;  // of the last bytes received
  };
  struct Received {
    Id id = 0;
    int64_t ns = 0;
    size_t offset = 0;
    size_t size = 0;
  };
  struct Ending {
    Id id = 0;
    std::optional<diag::Diagnostic> error;
  };

  State(CURLM* multi, base::FileDescriptor epoll, base::FileDescriptor wake, std::stop_token stop);

  static int on_socket(CURL* easy, curl_socket_t socket, int what, void* self, void* socket_data);
  static int on_timer(CURLM* multi, long timeout_ms, void* self);
  void begin_round();
  void look_at(curl_socket_t socket);
  void drive(curl_socket_t socket, int events);
  void drive_timer();
  void expire();
  void collect_finished();
  void deliver();
  void deliver_bytes();
  void end(Ending ending);
  int64_t wait_ns(int64_t longest_ns) const;
  int wait(int64_t longest_ns, std::span<epoll_event> events) const;

  CURLM* multi_;
  base::FileDescriptor epoll_;
  base::FileDescriptor wake_;
  std::stop_token stop_;
  int64_t curl_timer_ns_ = -1;  // -1: libcurl waits for no timer
  int64_t next_expiry_check_ns_ = 0;
  WallClockOffset wall_clock_ = WallClockOffset::now();
  bool wall_clock_holds_ = true;  // it was not set since the last round
  ArrivalOfPieces arrival_;       // of what libcurl is reading
  Id next_id_ = 1;
  std::unordered_map<Id, Stream> streams_;
  std::vector<Received> received_;
  std::string received_bytes_;
  std::vector<Received> delivering_;
  std::string delivering_bytes_;
  std::vector<Ending> endings_;
  std::stop_callback<std::function<void()>> wake_on_stop_;  // last: it uses wake_
};

diag::Result<std::unique_ptr<Streams::State>> Streams::State::open(std::stop_token stop) {
  const auto no_resources = [] {
    return diag::fail(diag::rule::http_no_resources,
                      fmt::format("cannot watch connections: {}", std::generic_category().message(errno)));
  };
  if (const auto loaded = load_libcurl(); !loaded) return diag::fail(loaded.error());
  base::FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_open()) return no_resources();
  base::FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open()) return no_resources();
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake.get();
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) return no_resources();
  CURLM* multi = libcurl().multi_init();
  if (multi == nullptr) return no_resources();
  return std::unique_ptr<State>(new State(multi, std::move(epoll), std::move(wake), std::move(stop)));
}

Streams::State::State(CURLM* multi, base::FileDescriptor epoll, base::FileDescriptor wake, std::stop_token stop)
    : multi_(multi),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      stop_(std::move(stop)),
      wake_on_stop_(stop_, [this] {
        const uint64_t one = 1;
        // A full counter means that the wake-up is already pending.
        [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
      }) {
  libcurl().multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &State::on_socket);
  libcurl().multi_setopt(multi_, CURLMOPT_SOCKETDATA, static_cast<void*>(this));
  libcurl().multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &State::on_timer);
  libcurl().multi_setopt(multi_, CURLMOPT_TIMERDATA, static_cast<void*>(this));
}

Streams::State::~State() {
  for (auto& [id, stream] : streams_)
    if (stream.added) libcurl().multi_remove_handle(multi_, stream.transfer->handle());
  streams_.clear();
  libcurl().multi_cleanup(multi_);
}

int Streams::State::on_socket(CURL*, curl_socket_t socket, int what, void* self, void* socket_data) {
  auto& state = *static_cast<State*>(self);
  if (what == CURL_POLL_REMOVE) {
    ::epoll_ctl(state.epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
    return 0;
  }
  epoll_event event{};
  event.data.fd = socket;
  if ((what & CURL_POLL_IN) != 0) event.events |= EPOLLIN;
  if ((what & CURL_POLL_OUT) != 0) event.events |= EPOLLOUT;
  // Any pointer that is not null marks a socket which is already being watched.
  const int operation = socket_data == nullptr ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (socket_data == nullptr) stamp_arrivals(socket);
  if (::epoll_ctl(state.epoll_.get(), operation, socket, &event) != 0) {
    // The kernel forgets a socket that is closed, and numbers are used again: it may know more or less than libcurl.
    const int other = operation == EPOLL_CTL_ADD ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (::epoll_ctl(state.epoll_.get(), other, socket, &event) != 0) return -1;
  }
  libcurl().multi_assign(state.multi_, socket, self);
  return 0;
}

int Streams::State::on_timer(CURLM*, long timeout_ms, void* self) {
  static_cast<State*>(self)->curl_timer_ns_ =
      timeout_ms < 0 ? -1 : base::monotonic_ns() + timeout_ms * base::kNanosecondsPerMillisecond;
  return 0;
}

Streams::Id Streams::State::start(Method method, Request request, StreamCallbacks callbacks) {
  const Id id = next_id_++;
  Stream& stream = streams_[id];
  stream.id = id;
  stream.callbacks = std::move(callbacks);
  stream.transfer = std::make_unique<Transfer>(
      method, std::move(request), [this, &stream](std::string_view bytes, const Piece& piece) {
        stream.last_ns = std::max(stream.last_ns, arrival_.time_of(piece));
        received_.push_back(
            {.id = stream.id, .ns = stream.last_ns, .offset = received_bytes_.size(), .size = bytes.size()});
        received_bytes_.append(bytes);
      });
  if (stream.transfer->rejected()) {
    endings_.push_back({id, stream.transfer->rejected()});
  } else if (stop_.stop_requested()) {
    endings_.push_back({id, stream.transfer->cancelled()});
  } else if (libcurl().easy_setopt(stream.transfer->handle(), CURLOPT_PRIVATE, static_cast<void*>(&stream)) ==
                 CURLE_OK &&
             libcurl().multi_add_handle(multi_, stream.transfer->handle()) == CURLM_OK) {
    stream.added = true;
    drive_timer();
  } else {
    endings_.push_back({id, stream.transfer->failure(CURLE_OUT_OF_MEMORY)});
  }
  return id;
}

void Streams::State::cancel(Id id) {
  const auto found = streams_.find(id);
  if (found != streams_.end()) endings_.push_back({id, found->second.transfer->cancelled()});
}

void Streams::State::begin_round() {
  const WallClockOffset now = WallClockOffset::now();
  wall_clock_holds_ = now.continues(wall_clock_);
  wall_clock_ = now;
}

// Without the kernel's word, the time is that of the reading: never before the bytes were there.
void Streams::State::look_at(curl_socket_t socket) {
  const auto stamped = wall_clock_holds_ ? arrival(socket) : std::nullopt;
  if (stamped)
    arrival_.begin(wall_clock_.to_monotonic(stamped->unix_ns), stamped->bytes);
  else
    arrival_.end();
}

void Streams::State::drive(curl_socket_t socket, int events) {
  int running = 0;
  libcurl().multi_socket_action(multi_, socket, events, &running);
}

void Streams::State::drive_timer() {
  if (curl_timer_ns_ < 0 || curl_timer_ns_ > base::monotonic_ns()) return;
  curl_timer_ns_ = -1;
  drive(CURL_SOCKET_TIMEOUT, 0);
}

int64_t Streams::State::wait_ns(int64_t longest_ns) const {
  if (!endings_.empty() || !received_.empty()) return 0;
  int64_t wait = std::clamp<int64_t>(longest_ns, 0, kExpiryCheckMs * base::kNanosecondsPerMillisecond);
  if (curl_timer_ns_ >= 0) wait = std::min(wait, std::max<int64_t>(0, curl_timer_ns_ - base::monotonic_ns()));
  return wait;
}

int Streams::State::wait(int64_t longest_ns, std::span<epoll_event> events) const {
  const int64_t wait = wait_ns(longest_ns);
  if (wait > 0 && wait < base::kNanosecondsPerMillisecond) {  // epoll_wait() knows milliseconds only
    pollfd watched{.fd = epoll_.get(), .events = POLLIN, .revents = 0};
    const timespec time{.tv_sec = 0, .tv_nsec = wait};
    ::ppoll(&watched, 1, &time, nullptr);
    return ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  }
  return ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                      static_cast<int>(wait / base::kNanosecondsPerMillisecond));
}

void Streams::State::poll(std::chrono::nanoseconds longest) {
  const int64_t until_ns = base::monotonic_ns() + longest.count();
  bool something = false;
  for (int rounds = 0; !something && !streams_.empty(); ++rounds) {
    std::array<epoll_event, kEventsPerWait> events;
    const int count = wait(until_ns - base::monotonic_ns(), events);
    begin_round();
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      if (event.data.fd == wake_.get()) continue;  // stays readable: every later wait returns at once, as it should
      int flags = 0;
      if ((event.events & (EPOLLIN | EPOLLHUP)) != 0) flags |= CURL_CSELECT_IN;
      if ((event.events & EPOLLOUT) != 0) flags |= CURL_CSELECT_OUT;
      if ((event.events & EPOLLERR) != 0) flags |= CURL_CSELECT_ERR;
      if ((flags & CURL_CSELECT_IN) != 0) look_at(event.data.fd);
      drive(event.data.fd, flags);
      arrival_.end();
    }
    drive_timer();
    expire();
    collect_finished();
    const bool may_be_more =
        count > 0 && !received_.empty() && received_bytes_.size() < kMostHeldBytes && rounds < kMostRounds;
    if (may_be_more && endings_.empty()) continue;
    something = !endings_.empty() || !received_.empty();
    deliver();
    if (base::monotonic_ns() >= until_ns) break;
  }
}

void Streams::State::expire() {
  if (stop_.stop_requested()) {
    for (auto& [id, stream] : streams_) endings_.push_back({id, stream.transfer->cancelled()});
    return;
  }
  const int64_t now_ns = base::monotonic_ns();
  if (now_ns < next_expiry_check_ns_) return;
  next_expiry_check_ns_ = now_ns + kExpiryCheckMs * base::kNanosecondsPerMillisecond;
  for (auto& [id, stream] : streams_)
    if (auto expired = stream.transfer->expired(now_ns)) endings_.push_back({id, std::move(expired)});
}

void Streams::State::collect_finished() {
  int left = 0;
  while (const CURLMsg* message = libcurl().multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    char* owner = nullptr;
    libcurl().easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &owner);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): libcurl types its user pointer as text
    const auto& stream = *reinterpret_cast<const Stream*>(owner);
    endings_.push_back({stream.id, stream.transfer->failure(message->data.result)});
  }
}

void Streams::State::deliver() {
  deliver_bytes();
  // A callback may start a request that fails at once: that one is delivered by the next poll.
  for (Ending& ending : std::exchange(endings_, {})) end(std::move(ending));
}

void Streams::State::deliver_bytes() {
  // Callbacks may start requests, which may receive.
  delivering_.swap(received_);
  delivering_bytes_.swap(received_bytes_);
  for (const Received& piece : delivering_) {
    const auto found = streams_.find(piece.id);
    if (found == streams_.end()) continue;
    Stream& stream = found->second;
    if (!std::exchange(stream.head_given, true) && stream.callbacks.head)
      stream.callbacks.head(stream.transfer->head());
    if (stream.callbacks.bytes)
      stream.callbacks.bytes(std::string_view(delivering_bytes_).substr(piece.offset, piece.size), piece.ns);
  }
  delivering_.clear();
  delivering_bytes_.clear();
}

void Streams::State::end(Ending ending) {
  const auto found = streams_.find(ending.id);
  if (found == streams_.end()) return;  // ended twice in one round, such as cancelled and complete: the first counts
  Stream stream = std::move(found->second);
  streams_.erase(found);
  if (stream.added) libcurl().multi_remove_handle(multi_, stream.transfer->handle());
  const bool began = stream.transfer->head().status != 0;
  if (began && !stream.head_given && stream.callbacks.head) stream.callbacks.head(stream.transfer->head());
  if (stream.callbacks.end)
    stream.callbacks.end(
        {.head = stream.transfer->head(), .error = std::move(ending.error), .ended_ns = base::monotonic_ns()});
}

diag::Result<Streams> Streams::open(std::stop_token stop) {
  auto state = State::open(std::move(stop));
  if (!state) return diag::fail(std::move(state).error());
  return Streams(std::move(*state));
}

Streams::Streams(std::unique_ptr<State> state) : state_(std::move(state)) {}
Streams::Streams(Streams&&) noexcept = default;
Streams& Streams::operator=(Streams&&) noexcept = default;
Streams::~Streams() = default;

Streams::Id Streams::start(Method method, Request request, StreamCallbacks callbacks) {
  return state_->start(method, std::move(request), std::move(callbacks));
}

void Streams::cancel(Id id) {
  state_->cancel(id);
}

size_t Streams::active() const {
  return state_->active();
}

void Streams::poll(std::chrono::nanoseconds longest) {
  state_->poll(longest);
}

}  // namespace sweep::http
