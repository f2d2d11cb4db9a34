#include "bootstrap/meeting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "bootstrap/agreement.hpp"
#include "bootstrap/control_channel.hpp"
#include "bootstrap/introduction.hpp"
#include "bootstrap/limits.hpp"
#include "bootstrap/local_links.hpp"
#include "bootstrap/local_socket.hpp"
#include "bootstrap/remote_links.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

constexpr std::size_t facts_bytes_max =
    60 * 1024;  // a bootstrap carries 64 KiB: the rest of the introduction fits beside them

// Carries nothing but its randomness: the kernel's word and the tokens make a socket trusted, not
// its name.
std::string listener_name(const base::System& system) {
  return fmt::format("qpmesh-{:016x}{:016x}", system.random_u64(), system.random_u64());
}

// Part of the time stays for the second gather: a rank that waited in vain for a neighbour must
// still be able to say so.
Deadline linking_deadline(const base::System& system, Deadline deadline) {
  return deadline == no_deadline ? deadline : deadline - (deadline - system.now()) / 4;
}

struct Preparation {
  Introduction mine;
  base::UniqueFd listener;
};

void prepare(const base::System& system, const LocalOffer& offer, BlobView facts,
             Preparation& preparation) {
  Introduction& mine = preparation.mine;
  if (facts.size() > facts_bytes_max) {
    throw Error{
        {.code = ErrorCode::bad_argument,
         .operation = "init",
         .cause = fmt::format("{} bytes of facts, {} are allowed", facts.size(), facts_bytes_max),
         .hint = "facts are what init tells of itself: start fewer ranks, or report it"}};
  }
  mine.facts.assign(facts.begin(), facts.end());
  mine.nonce = offer.nonce;
  mine.arena_bytes = offer.arena_bytes;
  mine.private_nonce_address = offer.private_nonce_address;
  look_around(system, mine);
  const std::string name = listener_name(system);
  local::Listening listening = local::listen_at(system, name);
  if (!listening.socket) {
    throw Error{{.code = ErrorCode::no_resource,
                 .operation = "init",
                 .cause = fmt::format("listening at the Unix socket @{} failed", name),
                 .system_error = listening.error,
                 .hint = hint_for_descriptors(listening.error)}};
  }
  preparation.listener = std::move(listening.socket);
  mine.listener = name;  // last: a name in the blob promises that somebody listens
}

// Ranks that a bootstrap mixed up would accuse each other of forgery.
void check_own_blob(const Introduction& sent, const Introduction& returned) {
  if (sent.token == returned.token) return;
  throw Error{
      {.code = ErrorCode::corrupt,
       .peer = sent.rank,
       .operation = "init",
       .cause = fmt::format("all_gather returned a blob for rank {} that this rank did not send",
                            sent.rank),
       .hint = "the bootstrap must hand every rank's blob to every rank as it is, in rank order"}};
}

// Every step that can fail alone runs here: its Error goes to the other ranks with the second
// gather.
template <class Step>
bool attempt(Outcome& outcome, int rank, Step&& step) {
  try {
    step();
  } catch (...) {
    outcome.fail(Failure::from_current_exception(rank));
  }
  return !outcome.failure;
}

std::unique_ptr<base::ControlChannel> open_control(const base::System& system,
                                                   std::vector<Link>& local,
                                                   std::vector<RemoteLink>& remote,
                                                   std::span<const Introduction> everybody) {
  std::vector<ControlLink> control;
  const auto add = [&](int rank, std::string address, base::UniqueFd socket, base::UniqueFd pidfd) {
    const Introduction& there = everybody[static_cast<std::size_t>(rank)];
    control.push_back({.peer = rank,
                       .pid = there.pid,
                       .host = there.host,
                       .address = std::move(address),
                       .socket = std::move(socket),
                       .pidfd = std::move(pidfd)});
  };
  for (Link& link : local) add(link.memory.rank, {}, std::move(link.socket), std::move(link.pidfd));
  for (RemoteLink& link : remote)
    add(link.rank, std::move(link.address), std::move(link.socket), {});
  return std::make_unique<SocketControlChannel>(system, std::move(control));
}

}  // namespace

void check_place(int rank, int size) {
  if (rank >= 0 && rank < size) return;
  throw Error{{.code = ErrorCode::bad_config,
               .operation = "init",
               .cause = fmt::format("the bootstrap says rank {} of {}", rank, size),
               .hint = "a rank is at least 0 and less than the number of ranks"}};
}

// Two gathers where all ranks are in one place, three where they are not, on every path: a rank
// that failed takes part in the next one all the same, or the others would wait for it.
Meeting meet(Bootstrap& bootstrap, const Options& options, const base::System& system,
             const base::Log& log, const LocalOffer& offer, BlobView facts, Deadline deadline) {
  const int rank = bootstrap.rank();
  const int size = bootstrap.size();
  check_place(rank, size);

  Outcome outcome;
  Preparation preparation;
  preparation.mine = introduce_myself(system, rank, size);
  attempt(outcome, rank, [&] { prepare(system, offer, facts, preparation); });
  const auto introductions = bootstrap.all_gather(encode(preparation.mine), deadline);

  std::vector<Introduction> everybody;
  std::optional<Error>
      // Which every rank reads alike; a rank of another protocol could not read our report of it.
      misread;
  try {
    everybody = read_introductions(introductions, size);
  } catch (const Error& error) {
    misread = error;
    attempt(outcome, rank, [] { throw; });
  }

  Meeting meeting;
  std::vector<Link> links;
  std::vector<RemoteLink> remote_links;
  std::optional<Listener> listener;
  const bool several_places = !misread && scattered(everybody);
  if (!outcome.failure) {
    attempt(outcome, rank, [&] {
      check_own_blob(preparation.mine, everybody[static_cast<std::size_t>(rank)]);
      if (several_places) {
        listener.emplace(Listener::Settings{.rank = rank,
                                            .bootstrap_address = bootstrap.local_address(),
                                            .handshake_timeout_ms = options.handshake_timeout_ms},
                         everybody, system, log);
        outcome.listens_at = listener->addresses();
      }
      link_local_peers(system, log, preparation.listener.get(), offer, everybody, rank,
                       options.handshake_timeout_ms, linking_deadline(system, deadline), links,
                       outcome);
      if (!several_places) meeting.control = open_control(system, links, remote_links, everybody);
    });
  }
  const auto outcome_blobs = bootstrap.all_gather(encode(outcome), deadline);
  preparation.listener.reset();
  if (misread) throw Error{*misread};
  const std::vector<Outcome> outcomes = read_outcomes(outcome_blobs, size);
  throw_agreed_failure(outcomes);

  const std::vector<int> node_of = number_nodes(outcomes);
  if (several_places) {
    Outcome remote_outcome;
    attempt(remote_outcome, rank, [&] {
      link_remote_peers(system, log, *listener, everybody, outcomes, rank,
                        options.handshake_timeout_ms, linking_deadline(system, deadline),
                        remote_links, remote_outcome);
      if (!remote_outcome.failure)
        meeting.control = open_control(system, links, remote_links, everybody);
    });
    listener.reset();
    throw_agreed_failure(
        read_outcomes(bootstrap.all_gather(encode(remote_outcome), deadline), size));
  }

  for (Introduction& each : everybody) {
    meeting.ranks.push_back(
        {.host = std::move(each.host),
         .pid = each.pid,
         .place = std::move(each.place),
         .node = node_of[static_cast<std::size_t>(each.rank)],
         .reads_neighbours = outcomes[static_cast<std::size_t>(each.rank)].reads_neighbours,
         .facts = std::move(each.facts)});
  }
  for (Link& link : links) meeting.local_peers.push_back(std::move(link.memory));
  meeting.epoch = epoch_of(everybody);
  log.info("met {} ranks on {} nodes, {} of them here; epoch {:016x}", size,
           1 + *std::max_element(node_of.begin(), node_of.end()), links.size() + 1, meeting.epoch);
  return meeting;
}

}  // namespace qpmesh::bootstrap
