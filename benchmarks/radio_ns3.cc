/*
 * Flooding over 802.11b in ns-3, for `shoal bench radio`.
 *
 * Standard input says what is simulated:
 *   nodes duration range rate payload jitter seed propagation(0: disc, 1: Friis)
 *   per node: points, then so many lines `time x y`
 *   publications, then so many lines `time node`
 * Standard output is one line: deliveries, receptions, frames, CPU seconds.
 *
 * Build: see benchmarks/radio.py, which does it where ns-3 and a compiler are installed.
 */
#include <cstdint>
#include <ctime>
#include <iostream>
#include <string>
#include <unordered_set>
#include <vector>

#include "ns3/core-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/wifi-module.h"

using namespace ns3;

namespace
{
constexpr uint16_t kProtocol = 0x88b5; // an EtherType for local experiments

struct Flood
{
    NetDeviceContainer devices;
    std::vector<std::unordered_set<uint32_t>> seen;
    Ptr<UniformRandomVariable> jitter;
    uint32_t payload = 0;
    double longest = 0;
    uint64_t deliveries = 0, receptions = 0, frames = 0;

    void Transmit(uint32_t node, uint32_t event)
    {
        std::vector<uint8_t> bytes(payload, 0);
        for (int i = 0; i < 4; ++i)
        {
            bytes[i] = static_cast<uint8_t>(event >> (8 * i));
        }
        frames++;
        Ptr<NetDevice> device = devices.Get(node);
        device->Send(Create<Packet>(bytes.data(), payload), device->GetBroadcast(), kProtocol);
    }

    void Publish(uint32_t node, uint32_t event)
    {
        seen[node].insert(event);
        Transmit(node, event);
    }

    bool Receive(Ptr<NetDevice> device, Ptr<const Packet> packet, uint16_t, const Address&)
    {
        receptions++;
        uint8_t bytes[4];
        packet->CopyData(bytes, 4);
        uint32_t event = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | uint32_t(bytes[3]) << 24;
        uint32_t node = device->GetNode()->GetId();
        if (seen[node].insert(event).second)
        {
            deliveries++;
            Time wait = Seconds(jitter->GetValue(0, longest));
            Simulator::Schedule(wait, &Flood::Transmit, this, node, event);
        }
        return true;
    }
};
} // namespace

int
main()
{
    uint32_t count, payload, seed, friis;
    double duration, range, rate, jitter;
    std::cin >> count >> duration >> range >> rate >> payload >> jitter >> seed >> friis;
    RngSeedManager::SetSeed(seed + 1);

    NodeContainer nodes;
    nodes.Create(count);
    for (uint32_t n = 0; n < count; ++n)
    {
        Ptr<WaypointMobilityModel> walk = CreateObject<WaypointMobilityModel>();
        uint32_t points;
        std::cin >> points;
        for (uint32_t k = 0; k < points; ++k)
        {
            double at, x, y;
            std::cin >> at >> x >> y;
            walk->AddWaypoint(Waypoint(Seconds(at), Vector(x, y, 0)));
        }
        nodes.Get(n)->AggregateObject(walk);
    }

    YansWifiChannelHelper air;
    air.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel");
    YansWifiPhyHelper phy;
    if (friis)
    {
        // The transmit power with which a frame arrives at -82 dBm, the weakest that is read, over
        // the range.
        const double wavelength = 299792458.0 / 2.412e9;
        const double loss = 20 * std::log10(4 * M_PI * range / wavelength);
        air.AddPropagationLoss("ns3::FriisPropagationLossModel", "Frequency", DoubleValue(2.412e9));
        phy.Set("TxPowerStart", DoubleValue(-82 + loss));
        phy.Set("TxPowerEnd", DoubleValue(-82 + loss));
    }
    else
    {
        air.AddPropagationLoss("ns3::RangePropagationLossModel", "MaxRange", DoubleValue(range));
    }
    phy.SetChannel(air.Create());
    WifiMacHelper mac;
    mac.SetType("ns3::AdhocWifiMac");
    WifiHelper wifi;
    wifi.SetStandard(WIFI_STANDARD_80211b);
    std::string mode = rate < 1.5e6   ? "DsssRate1Mbps"
                       : rate < 3e6   ? "DsssRate2Mbps"
                       : rate < 1e7   ? "DsssRate5_5Mbps"
                                      : "DsssRate11Mbps";
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                 "DataMode",
                                 StringValue(mode),
                                 "NonUnicastMode",
                                 StringValue(mode));

    Flood flood;
    flood.devices = wifi.Install(phy, mac, nodes);
    flood.seen.resize(count);
    flood.jitter = CreateObject<UniformRandomVariable>();
    flood.payload = payload;
    flood.longest = jitter;
    for (uint32_t n = 0; n < count; ++n)
    {
        flood.devices.Get(n)->SetReceiveCallback(MakeCallback(&Flood::Receive, &flood));
    }
    uint32_t publications;
    std::cin >> publications;
    for (uint32_t event = 0; event < publications; ++event)
    {
        double at;
        uint32_t node;
        std::cin >> at >> node;
        Simulator::Schedule(Seconds(at), &Flood::Publish, &flood, node, event);
    }
    Simulator::Stop(Seconds(duration));
    const std::clock_t before = std::clock();
    Simulator::Run();
    const double spent = double(std::clock() - before) / CLOCKS_PER_SEC;
    std::cout << flood.deliveries << " " << flood.receptions << " " << flood.frames << " " << spent
              << std::endl;
    Simulator::Destroy();
    return 0;
}
