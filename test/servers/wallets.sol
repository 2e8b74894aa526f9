// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// A contract wallet (ERC-1271) with one owner.
contract OwnedWallet {
    address public owner;

    constructor(address first) {
        owner = first;
    }

    function hand(address next) external {
        require(msg.sender == owner, "not the owner");
        owner = next;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        if (signature.length != 65) return 0xffffffff;
        address signer = ecrecover(hash, uint8(signature[64]), bytes32(signature[:32]), bytes32(signature[32:64]));
        return signer != address(0) && signer == owner ? bytes4(0x1626ba7e) : bytes4(0xffffffff);
    }
}

/// Deploys wallets to addresses known before, for signatures by wallets that are not deployed yet (ERC-6492).
contract WalletFactory {
    function deploy(address owner, bytes32 salt) external returns (address) {
        return address(new OwnedWallet{salt: salt}(owner));
    }

    function addressOf(address owner, bytes32 salt) external view returns (address) {
        bytes32 code = keccak256(abi.encodePacked(type(OwnedWallet).creationCode, abi.encode(owner)));
        bytes32 place = keccak256(abi.encodePacked(bytes1(0xff), address(this), salt, code));
        return address(uint160(uint256(place)));
    }
}

/// Looks like a contract wallet, and is none: whatever it is asked, it spends all the gas there is.
contract GasBurner {
    fallback() external {
        while (true) {}
    }
}
